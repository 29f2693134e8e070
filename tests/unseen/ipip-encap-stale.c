// Bounds: packet (stale pointer after adjust) (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct backend {
	__be32 vip;
	__be32 real;
	__u8 mac[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct backend);
} backends SEC(".maps");

SEC("xdp")
int lb_encap(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth), *outer;
	struct backend *be;
	__u16 inner_len;
	__u32 idx;

	if (data + sizeof(*eth) + sizeof(*ip) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(0x0800))
		return XDP_PASS;

	idx = bpf_ntohl(ip->saddr) & 0xff;
	inner_len = bpf_ntohs(ip->tot_len);
	be = bpf_map_lookup_elem(&backends, &idx);
	if (!be)
		return XDP_DROP;

	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct iphdr)))
		return XDP_DROP;

	data = (void *)(long)ctx->data;
	eth = data;
	outer = data + sizeof(*eth);
	if (data + sizeof(*eth) + sizeof(*outer) > data_end)
		return XDP_DROP;

	__builtin_memcpy(eth->h_dest, be->mac, 6);
	eth->h_proto = bpf_htons(0x0800);
	outer->version = 4;
	outer->ihl = 5;
	outer->tos = 0;
	outer->tot_len = bpf_htons(inner_len + sizeof(*outer));
	outer->id = 0;
	outer->frag_off = 0;
	outer->ttl = 64;
	outer->protocol = IPPROTO_IPIP;
	outer->check = 0;
	outer->saddr = be->vip;
	outer->daddr = be->real;
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
