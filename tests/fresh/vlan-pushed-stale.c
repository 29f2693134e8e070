// A VLAN tag is pushed between the check and the access.
// line: ip->tos = 0;
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("tc")
int tag(struct __sk_buff *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);

	if ((void *)(ip + 1) > data_end)
		return TC_ACT_OK;
	if (bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), 5))
		return TC_ACT_SHOT;
	ip->tos = 0;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
