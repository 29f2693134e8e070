// The key's padding was never written: without privilege, that would leak what the stack held.
// check: accept
// prevail: 4.13
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct flow {
	__u8 protocol;
	__u32 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct flow);
	__type(value, __u64);
} flows SEC(".maps");

SEC("socket")
int seen(struct __sk_buff *skb)
{
	struct flow key;

	key.protocol = 6;
	key.address = skb->len;
	return bpf_map_lookup_elem(&flows, &key) ? 1 : 0;
}

char _license[] SEC("license") = "GPL";
