#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

#define ICMP_ECHO 8

struct icmphdr {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__u32 rest;
};

SEC("xdp")
int drop_ping(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct icmphdr *icmp = (void *)(ip + 1);

	if ((void *)(icmp + 1) > data_end)
		return XDP_PASS;
	if (ip->protocol == IPPROTO_ICMP && icmp->type == ICMP_ECHO)
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
