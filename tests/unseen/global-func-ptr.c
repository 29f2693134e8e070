// Global functions: pointer argument unchecked (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct tuple {
	__be32 src;
	__be32 dst;
	__be16 sport;
	__be16 dport;
	__u8 proto;
	__u8 pad[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} by_hash SEC(".maps");

/* not static: shared by the ingress and the egress program */
__noinline int tuple_hash(struct tuple *t)
{
	__u32 h;

	h = t->src ^ (t->dst * 2654435761u);
	h ^= ((__u32)t->sport << 16) | t->dport;
	h ^= t->proto;
	return h & 0x7fffffff;
}

SEC("tc")
int flow_count(struct __sk_buff *skb)
{
	struct tuple t = {};
	__u64 one = 1, *n;
	__u32 h;

	if (skb->protocol != bpf_htons(0x0800))
		return 0;
	bpf_skb_load_bytes(skb, 14 + 9, &t.proto, 1);
	bpf_skb_load_bytes(skb, 14 + 12, &t.src, 8);
	bpf_skb_load_bytes(skb, 14 + 20, &t.sport, 4);
	h = tuple_hash(&t);
	n = bpf_map_lookup_elem(&by_hash, &h);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&by_hash, &h, &one, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
