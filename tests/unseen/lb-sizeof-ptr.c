// Packet bounds (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define ETH_P_IP 0x0800

struct backend {
	__be32 addr;
	__u8 mac[6];
	__u16 weight;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct backend);
} backends SEC(".maps");

const volatile __u32 n_backends = 4;
const volatile __be32 vip = 0x0a00000a;

static __always_inline __u32 pick(__be32 saddr, __u16 sport)
{
	__u32 h = saddr ^ ((__u32)sport << 16);

	h ^= h >> 15;
	h *= 0x85ebca6b;
	return n_backends ? h % n_backends : 0;
}

SEC("xdp")
int lb_ingress(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct iphdr *iph;
	struct udphdr *udp;
	struct backend *be;
	__u32 slot;

	if (data + sizeof(*eth) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;

	iph = data + sizeof(*eth);
	if ((void *)iph + sizeof(iph) > data_end)
		return XDP_PASS;
	if (iph->protocol != IPPROTO_UDP || iph->daddr != vip)
		return XDP_PASS;

	udp = (void *)iph + sizeof(*iph);
	if ((void *)(udp + 1) > data_end)
		return XDP_PASS;

	slot = pick(iph->saddr, udp->source);
	be = bpf_map_lookup_elem(&backends, &slot);
	if (!be)
		return XDP_DROP;

	__builtin_memcpy(eth->h_dest, be->mac, 6);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "GPL";
