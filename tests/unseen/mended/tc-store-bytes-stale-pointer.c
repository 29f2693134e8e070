#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("tc")
int rewrite_dst(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	__be32 new_dst = bpf_htonl(0x0a000001), old_dst;

	if ((void *)(ip + 1) > data_end)
		return TC_ACT_OK;
	old_dst = ip->daddr;
	__u8 tos = ip->tos;
	bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, daddr), &new_dst, 4, 0);
	bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old_dst, new_dst, 4);
	if (tos)
		skb->priority = 1;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
