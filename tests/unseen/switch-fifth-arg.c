// Context field (tp_btf/sched_waking).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
struct lat {
	__u64 voluntary;
	__u64 forced;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct lat);
} stats SEC(".maps");

SEC("tp_btf/sched_waking")
int BPF_PROG(count, struct task_struct *p, int success)
{
	struct lat zero = {}, *l;
	__u32 pid = p->tgid;

	if (p->flags & 0x00200000 /* PF_KTHREAD */)
		return 0;
	l = bpf_map_lookup_elem(&stats, &pid);
	if (!l) {
		bpf_map_update_elem(&stats, &pid, &zero, BPF_NOEXIST);
		return 0;
	}
	if (success)
		l->voluntary++;
	else
		l->forced++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
