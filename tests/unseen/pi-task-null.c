// Null (tp_btf/sched_pi_setprio).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
struct pi_rec {
	__u32 owner;
	__u32 donor;
	__s32 owner_prio;
	__s32 donor_prio;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct pi_rec);
} boosts SEC(".maps");

SEC("tp_btf/sched_pi_setprio")
int BPF_PROG(on_boost, struct task_struct *tsk, struct task_struct *pi_task)
{
	struct pi_rec r = {};
	__u32 pid = tsk->pid;

	if (tsk->prio >= 120)
		return 0;

	r.owner = pid;
	r.owner_prio = tsk->prio;
	r.donor = pi_task->pid;
	r.donor_prio = pi_task->prio;

	if (r.donor_prio < r.owner_prio)
		bpf_map_update_elem(&boosts, &pid, &r, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
