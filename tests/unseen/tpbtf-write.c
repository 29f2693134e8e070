// Write to a kernel structure (tp_btf).
// Gives interactive tasks of one cgroup a nudge when they wake.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, __u32);
	__type(value, __u32);
} wanted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} woken SEC(".maps");

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	__u32 tgid = p->tgid, zero = 0;
	__u32 *slack = bpf_map_lookup_elem(&wanted, &tgid);
	__u64 *n;

	if (!slack)
		return 0;
	if (p->prio < 100 || p->exit_state)
		return 0;
	if (p->timer_slack_ns > *slack)
		p->timer_slack_ns = *slack;
	n = bpf_map_lookup_elem(&woken, &zero);
	if (n)
		__sync_fetch_and_add(n, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
