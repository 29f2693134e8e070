// Time in soft interrupts by kind, and counts of hard ones by name.
#include "tools.h"

enum { KINDS = 10 };
struct name { char text[32]; };
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u64); } entered SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 256); __type(key, struct name); __type(value, __u64); } counts SEC(".maps");
__u64 time_ns[KINDS] = {};

SEC("tp_btf/softirq_entry")
int BPF_PROG(enter, unsigned int kind)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;

	bpf_map_update_elem(&entered, &zero, &now, 0);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(leave, unsigned int kind)
{
	__u32 zero = 0;
	__u64 *since = bpf_map_lookup_elem(&entered, &zero);

	if (since && *since && kind < KINDS)
		__sync_fetch_and_add(&time_ns[kind], bpf_ktime_get_ns() - *since);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(hard, int number, struct irqaction *action)
{
	struct name name = {};
	__u64 one = 1, *count;

	bpf_probe_read_kernel_str(name.text, sizeof(name.text), BPF_CORE_READ(action, name));
	count = bpf_map_lookup_elem(&counts, &name);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&counts, &name, &one, BPF_ANY);
	return 0;
}
