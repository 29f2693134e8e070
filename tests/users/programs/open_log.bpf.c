// openat with its result: what entry saw is kept by thread until exit.
#include "tools.h"

struct call { const char *path; int flags; };
struct event { __u64 when_ns; __u32 pid; int flags, result; char path[128]; };
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 10240); __type(key, __u32); __type(value, struct call); } calls SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __uint(key_size, 4); __uint(value_size, 4); } events SEC(".maps");

const volatile __u32 only_pid = 0;
const volatile bool failed_only = false;

SEC("tp/syscalls/sys_enter_openat")
int enter(struct trace_event_raw_sys_enter *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 thread = id;
	struct call call = { (const char *)ctx->args[1], (int)ctx->args[2] };

	if (only_pid && only_pid != id >> 32)
		return 0;
	bpf_map_update_elem(&calls, &thread, &call, BPF_ANY);
	return 0;
}

SEC("tp/syscalls/sys_exit_openat")
int leave(struct trace_event_raw_sys_exit *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();
	struct call *call = bpf_map_lookup_elem(&calls, &thread);
	struct event event = {};

	if (!call)
		return 0;
	if (!failed_only || ctx->ret < 0) {
		event.when_ns = bpf_ktime_get_ns();
		event.pid = bpf_get_current_pid_tgid() >> 32;
		event.flags = call->flags;
		event.result = ctx->ret;
		bpf_probe_read_user_str(event.path, sizeof(event.path), call->path);
		bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &event, sizeof(event));
	}
	bpf_map_delete_elem(&calls, &thread);
	return 0;
}
