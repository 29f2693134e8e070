// Bounds: packet (pointer used after store_bytes) (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define IP_OFF sizeof(struct ethhdr)
#define IP_CSUM (IP_OFF + 10)
#define IP_DST (IP_OFF + 16)
#define TC_ACT_OK 0

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, __be32);
} dnat SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, __u64);
} bytes_by_src SEC(".maps");

SEC("tc")
int dnat_ingress(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + IP_OFF;
	__be32 old, src, *new;
	__u64 *bytes;

	if (data + IP_OFF + sizeof(*ip) > data_end)
		return TC_ACT_OK;
	if (skb->protocol != bpf_htons(0x0800))
		return TC_ACT_OK;

	old = ip->daddr;
	new = bpf_map_lookup_elem(&dnat, &old);
	if (!new)
		return TC_ACT_OK;

	bpf_l3_csum_replace(skb, IP_CSUM, old, *new, sizeof(*new));
	bpf_skb_store_bytes(skb, IP_DST, new, sizeof(*new), 0);

	src = ip->saddr;
	bytes = bpf_map_lookup_elem(&bytes_by_src, &src);
	if (bytes)
		__sync_fetch_and_add(bytes, skb->len);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
