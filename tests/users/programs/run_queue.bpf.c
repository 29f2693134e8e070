// How long threads wait for a processor.
#include "tools.h"

#define RUNNING 0
struct task_struct___renamed { long state; } __attribute__((preserve_access_index));
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 10240); __type(key, __u32); __type(value, __u64); } waiting SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, BUCKETS); __type(key, __u32); __type(value, __u64); } waits SEC(".maps");

static __always_inline long state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ((struct task_struct___renamed *)task, state);
}

static __always_inline void enqueue(__u32 pid)
{
	__u64 now = bpf_ktime_get_ns();

	if (pid)
		bpf_map_update_elem(&waiting, &pid, &now, BPF_ANY);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(wakeup, struct task_struct *task)
{
	enqueue(task->pid);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(change, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	__u32 pid = next->pid, at;
	__u64 *since, *count;

	if (state_of(previous) == RUNNING)
		enqueue(previous->pid);
	since = bpf_map_lookup_elem(&waiting, &pid);
	if (!since)
		return 0;
	at = bucket((bpf_ktime_get_ns() - *since) / 1000);
	count = bpf_map_lookup_elem(&waits, &at);
	if (count)
		*count += 1;
	bpf_map_delete_elem(&waiting, &pid);
	return 0;
}
