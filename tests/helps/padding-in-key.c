// The key has padding that nobody wrote; kernels before 6.3 reject it.
// line: return bpf_map_lookup_elem(&ports, &key) ? 2 : 0;
// kernel: 5.15
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct key {
	__u8 protocol;
	__u32 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, struct key);
	__type(value, __u8);
} ports SEC(".maps");

SEC("tc")
int by_port(struct __sk_buff *skb)
{
	struct key key;

	key.protocol = skb->protocol;
	key.port = skb->hash;
	return bpf_map_lookup_elem(&ports, &key) ? 2 : 0;
}

char _license[] SEC("license") = "GPL";
