// System calls by number, and those that fail by process.
#include "tools.h"

struct failed { __u32 pid; int error; };
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 512); __type(key, __u32); __type(value, __u64); } calls SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 4096); __type(key, struct failed); __type(value, __u64); } failures SEC(".maps");

SEC("raw_tracepoint/sys_enter")
int enter(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 number = ctx->args[1];
	__u64 *count = bpf_map_lookup_elem(&calls, &number);

	if (count)
		*count += 1;
	return 0;
}

SEC("tp/raw_syscalls/sys_exit")
int leave(struct trace_event_raw_sys_exit *ctx)
{
	struct failed failed = { bpf_get_current_pid_tgid() >> 32, ctx->ret };
	__u64 one = 1, *count;

	if (ctx->ret >= 0 || ctx->ret < -4095)
		return 0;
	count = bpf_map_lookup_elem(&failures, &failed);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&failures, &failed, &one, BPF_ANY);
	return 0;
}
