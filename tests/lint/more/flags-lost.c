// Flags are set without a lock, and a sum is added to a number that was loaded before.
// lint: lost-update lost-update
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct element {
	__u64 flags;
	__u64 bytes;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct element);
} elements SEC(".maps");

SEC("tc")
int mark(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct element *element = bpf_map_lookup_elem(&elements, &key);

	if (!element)
		return 0;
	element->flags |= 4;
	element->bytes += skb->len;
	return 0;
}

char _license[] SEC("license") = "GPL";
