// Bounds: packet range given to helper (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define ICMP_PAYLOAD 56

static __always_inline __u16 fold(__u32 s)
{
	s = (s & 0xffff) + (s >> 16);
	s = (s & 0xffff) + (s >> 16);
	return ~s;
}

static __always_inline void swap_mac(struct ethhdr *e)
{
	unsigned char t[6];

	__builtin_memcpy(t, e->h_source, 6);
	__builtin_memcpy(e->h_source, e->h_dest, 6);
	__builtin_memcpy(e->h_dest, t, 6);
}

SEC("xdp")
int ping_reply(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct icmphdr *icmp = (void *)(ip + 1);
	__be32 tmp;
	__s64 sum;

	if ((void *)(icmp + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(0x0800) || ip->protocol != IPPROTO_ICMP)
		return XDP_PASS;
	if (icmp->type != 8 || ip->ihl != 5)
		return XDP_PASS;

	swap_mac(eth);
	tmp = ip->saddr;
	ip->saddr = ip->daddr;
	ip->daddr = tmp;

	icmp->type = 0;
	icmp->checksum = 0;
	sum = bpf_csum_diff(0, 0, (__be32 *)icmp, sizeof(*icmp) + ICMP_PAYLOAD, 0);
	icmp->checksum = fold(sum);
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
