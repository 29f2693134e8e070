// Map value bounds (tp_btf/sched_wakeup).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#define MAX_SLOTS 20

struct hist {
	__u32 slots[MAX_SLOTS];
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__type(key, __u32);
	__type(value, __u64);
} start SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct hist);
} hists SEC(".maps");

static struct hist zero_hist;

static __always_inline __u32 log2_u32(__u32 v)
{
	__u32 r, shift;

	r = (v > 0xffff) << 4; v >>= r;
	shift = (v > 0xff) << 3; v >>= shift; r |= shift;
	shift = (v > 0xf) << 2; v >>= shift; r |= shift;
	shift = (v > 0x3) << 1; v >>= shift; r |= shift;
	return r | (v >> 1);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	__u64 ts = bpf_ktime_get_ns();
	__u32 pid = p->pid;

	bpf_map_update_elem(&start, &pid, &ts, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	__u32 pid = next->pid, tgid = next->tgid, slot;
	struct hist *h;
	__u64 *tsp;

	tsp = bpf_map_lookup_elem(&start, &pid);
	if (!tsp)
		return 0;
	h = bpf_map_lookup_elem(&hists, &tgid);
	if (!h) {
		bpf_map_update_elem(&hists, &tgid, &zero_hist, BPF_ANY);
		goto out;
	}
	slot = log2_u32((bpf_ktime_get_ns() - *tsp) / 1000);
	__sync_fetch_and_add(&h->slots[slot], 1);
out:
	bpf_map_delete_elem(&start, &pid);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
