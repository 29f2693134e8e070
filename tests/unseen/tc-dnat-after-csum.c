// Stale packet pointer (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define ETH_P_IP 0x0800
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define IP_CSUM_OFF (14 + 10)
#define IP_DST_OFF (14 + 16)

struct nat_rule {
	__be32 to;
	__u64 hits;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, struct nat_rule);
} nat_rules SEC(".maps");

SEC("tc")
int dnat(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *iph = data + 14;
	struct nat_rule *r;
	__be32 old, new;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	if ((void *)(iph + 1) > data_end)
		return TC_ACT_OK;

	old = iph->daddr;
	r = bpf_map_lookup_elem(&nat_rules, &old);
	if (!r)
		return TC_ACT_OK;
	new = r->to;

	if (bpf_l3_csum_replace(skb, IP_CSUM_OFF, old, new, 4) < 0)
		return TC_ACT_SHOT;
	if (bpf_skb_store_bytes(skb, IP_DST_OFF, &new, sizeof(new), 0) < 0)
		return TC_ACT_SHOT;

	__sync_fetch_and_add(&r->hits, 1);
	if (iph->ttl <= 1)
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
