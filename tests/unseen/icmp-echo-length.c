// Packet bounds (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define ETH_P_IP 0x0800

struct echo_pkt {
	struct ethhdr eth;
	struct iphdr ip;
	struct icmphdr icmp;
} __attribute__((packed));

const volatile __u8 reply_enabled = 1;
__u64 replies;

static __always_inline void swap_mac(struct ethhdr *e)
{
	__u8 tmp[6];

	__builtin_memcpy(tmp, e->h_source, 6);
	__builtin_memcpy(e->h_source, e->h_dest, 6);
	__builtin_memcpy(e->h_dest, tmp, 6);
}

SEC("xdp")
int icmp_responder(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct echo_pkt *p = data;
	__be32 tmp;
	__u32 sum;

	if (!reply_enabled)
		return XDP_PASS;
	if (ctx->data_end - ctx->data < sizeof(*p))
		return XDP_PASS;
	if (p->eth.h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (p->ip.protocol != IPPROTO_ICMP || p->icmp.type != 8)
		return XDP_PASS;

	swap_mac(&p->eth);
	tmp = p->ip.saddr;
	p->ip.saddr = p->ip.daddr;
	p->ip.daddr = tmp;

	p->icmp.type = 0;
	sum = p->icmp.checksum + bpf_htons(0x0800);
	p->icmp.checksum = (sum & 0xffff) + (sum >> 16);
	replies++;
	return XDP_TX;
}

char LICENSE[] SEC("license") = "GPL";
