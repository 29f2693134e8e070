// Map value bounds (raw_tracepoint/sys_enter).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#define NR_SYS 512

struct per_task {
	__u64 start;
	__u32 last;
	__u64 calls[NR_SYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct per_task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct per_task);
} empty SEC(".maps");

SEC("raw_tracepoint/sys_enter")
int count_syscalls(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 tid = bpf_get_current_pid_tgid();
	unsigned long id = ctx->args[1];
	struct per_task *t, *tmpl;
	__u32 zero = 0;

	if (id > NR_SYS)
		return 0;

	t = bpf_map_lookup_elem(&tasks, &tid);
	if (!t) {
		tmpl = bpf_map_lookup_elem(&empty, &zero);
		if (!tmpl)
			return 0;
		bpf_map_update_elem(&tasks, &tid, tmpl, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&tasks, &tid);
		if (!t)
			return 0;
		t->start = bpf_ktime_get_ns();
	}

	t->last = id;
	t->calls[id]++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
