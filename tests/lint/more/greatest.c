// What is stored does not come from what was loaded: it is compared only. A lock that is not held at the loop's jump
// back does not count, either.
// lint:
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct element {
	struct bpf_spin_lock lock;
	__u32 sum;
	__u64 longest;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct element);
} elements SEC(".maps");

SEC("tc")
int measure(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct element *element = bpf_map_lookup_elem(&elements, &key);

	if (!element)
		return 0;
	if (skb->len > element->longest)
		element->longest = skb->len;
#pragma clang loop unroll(disable)
	for (int turn = 0; turn < 10; turn++) {
		bpf_spin_lock(&element->lock);
		element->sum += turn;
		bpf_spin_unlock(&element->lock);
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
