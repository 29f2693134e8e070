// Bounds: map value (negative index) (raw_tp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define NR_SYSCALLS 512

struct proc_counts {
	__u64 total;
	__u32 nr[NR_SYSCALLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct proc_counts);
} counts SEC(".maps");

struct proc_counts empty;

SEC("raw_tp/sys_enter")
int count_syscalls(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	long id = ctx->args[1];
	struct proc_counts *c;

	c = bpf_map_lookup_elem(&counts, &tgid);
	if (!c) {
		bpf_map_update_elem(&counts, &tgid, &empty, BPF_NOEXIST);
		c = bpf_map_lookup_elem(&counts, &tgid);
		if (!c)
			return 0;
	}
	c->total++;
	if (id >= NR_SYSCALLS)
		return 0;
	c->nr[id]++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
