// Loops: no bound (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct ext {
	__u8 next;
	__u8 len;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} l4_count SEC(".maps");

static __always_inline int is_ext(__u8 p)
{
	return p == 0 || p == 43 || p == 60;
}

SEC("tc")
int v6_l4(struct __sk_buff *skb)
{
	struct ext x = {};
	__u32 off = 14 + 40, l4;
	__u8 proto;
	__u64 *c;
	int i = 0;

	if (skb->protocol != bpf_htons(0x86dd))
		return 0;
	if (bpf_skb_load_bytes(skb, 14 + 6, &proto, 1) < 0)
		return 0;

	while (is_ext(proto)) {
		if (bpf_skb_load_bytes(skb, off, &x, sizeof(x)) < 0)
			return 0;
		proto = x.next;
		off += (x.len + 1) * 8;
	}

	l4 = proto;
	c = bpf_map_lookup_elem(&l4_count, &l4);
	if (c)
		*c += 1;
	return i > 8 ? 2 : 0;
}

char LICENSE[] SEC("license") = "GPL";
