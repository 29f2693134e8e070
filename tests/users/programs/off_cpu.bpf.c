// Time that threads spend off the processor, by stack.
#include "tools.h"

struct wait_key { __u32 pid; int kernel_stack, user_stack; };
struct begin { __u64 when_ns; struct wait_key key; };
struct { __uint(type, BPF_MAP_TYPE_STACK_TRACE); __uint(max_entries, 1024); __uint(key_size, 4); __uint(value_size, 127 * 8); } stacks SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 10240); __type(key, __u32); __type(value, struct begin); } begun SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 10240); __type(key, struct wait_key); __type(value, __u64); } times SEC(".maps");

const volatile bool kernel_threads = false;

SEC("tp_btf/sched_switch")
int BPF_PROG(change, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	__u32 pid = previous->pid;
	struct begin begin = {}, *found;
	__u64 span, *sum;

	if (kernel_threads || !(previous->flags & 0x200000)) {
		begin.when_ns = bpf_ktime_get_ns();
		begin.key.pid = pid;
		begin.key.kernel_stack = bpf_get_stackid(ctx, &stacks, 0);
		begin.key.user_stack = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
		bpf_map_update_elem(&begun, &pid, &begin, 0);
	}
	pid = next->pid;
	found = bpf_map_lookup_elem(&begun, &pid);
	if (!found)
		return 0;
	span = bpf_ktime_get_ns() - found->when_ns;
	sum = bpf_map_lookup_elem(&times, &found->key);
	if (sum)
		__sync_fetch_and_add(sum, span);
	else
		bpf_map_update_elem(&times, &found->key, &span, BPF_NOEXIST);
	bpf_map_delete_elem(&begun, &pid);
	return 0;
}
