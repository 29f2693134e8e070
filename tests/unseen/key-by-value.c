// Wrong argument (raw_tp/sched_switch).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
struct usage {
	__u64 on_cpu;
	__u64 last_in;
	__u32 switches;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct usage);
} usage SEC(".maps");

SEC("raw_tp/sched_switch")
int account(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = (void *)ctx->args[1];
	struct task_struct *next = (void *)ctx->args[2];
	__u64 now = bpf_ktime_get_ns();
	__u64 out = BPF_CORE_READ(prev, pid);
	__u64 in = BPF_CORE_READ(next, pid);
	struct usage *u, fresh = {};

	u = bpf_map_lookup_elem(&usage, &out);
	if (u && u->last_in) {
		u->on_cpu += now - u->last_in;
		u->switches++;
	}

	if (!in)
		return 0;
	u = bpf_map_lookup_elem(&usage, (void *)in);
	if (u) {
		u->last_in = now;
		return 0;
	}
	fresh.last_in = now;
	bpf_map_update_elem(&usage, &in, &fresh, BPF_NOEXIST);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
