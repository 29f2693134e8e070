// Two accounts are locked at once; a program may hold one lock.
// line: bpf_spin_lock(&to->lock);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct account {
	struct bpf_spin_lock lock;
	__u64 balance;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps");

SEC("tc")
int transfer(struct __sk_buff *skb)
{
	__u32 one = 1, two = 2;
	struct account *from = bpf_map_lookup_elem(&accounts, &one);
	struct account *to = bpf_map_lookup_elem(&accounts, &two);

	if (!from || !to)
		return 0;
	bpf_spin_lock(&from->lock);
	bpf_spin_lock(&to->lock);
	from->balance -= 1;
	to->balance += 1;
	bpf_spin_unlock(&to->lock);
	bpf_spin_unlock(&from->lock);
	return 0;
}

char _license[] SEC("license") = "GPL";
