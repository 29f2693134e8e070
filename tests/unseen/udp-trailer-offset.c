// Packet bounds (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define ETH_P_IP 0x0800
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define TRAILER_MAGIC 0x4b53

struct trailer {
	__be16 magic;
	__be16 flags;
};

__u64 with_trailer, without_trailer;

SEC("tc")
int check_trailer(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct udphdr *udp = (void *)(ip + 1);
	struct trailer *t;
	__u32 ulen;

	if ((void *)(udp + 1) > data_end)
		return TC_ACT_OK;
	if (skb->protocol != bpf_htons(ETH_P_IP) || ip->ihl != 5)
		return TC_ACT_OK;
	if (ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(4789))
		return TC_ACT_OK;

	ulen = bpf_ntohs(udp->len);
	if (ulen < sizeof(*udp))
		return TC_ACT_SHOT;

	t = (void *)udp + ulen;
	if ((void *)(t + 1) > data_end)
		return TC_ACT_OK;

	if (t->magic == bpf_htons(TRAILER_MAGIC)) {
		__sync_fetch_and_add(&with_trailer, 1);
		skb->mark = bpf_ntohs(t->flags);
	} else {
		__sync_fetch_and_add(&without_trailer, 1);
	}
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
