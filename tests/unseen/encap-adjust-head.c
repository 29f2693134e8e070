// Packet pointers used after bpf_xdp_adjust_head (XDP).
// Puts an outer IPv4 header (IPIP) before packets to a virtual service.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct real {
	__be32 src, dst;
	__u8 smac[6], dmac[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, __be32);
	__type(value, struct real);
} reals SEC(".maps");

static __always_inline void fill(struct iphdr *o, struct real *r, __u16 len)
{
	__u32 sum = 0;
	__u16 *w = (__u16 *)o;

	__builtin_memset(o, 0, sizeof(*o));
	o->version = 4;
	o->ihl = 5;
	o->ttl = 64;
	o->protocol = 4;
	o->tot_len = bpf_htons(len + sizeof(*o));
	o->saddr = r->src;
	o->daddr = r->dst;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += w[i];
	sum = (sum & 0xffff) + (sum >> 16);
	o->check = ~(sum + (sum >> 16));
}

SEC("xdp")
int ipip(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data, *neth;
	struct iphdr *ip = data + sizeof(*eth), *outer;

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	struct real *r = bpf_map_lookup_elem(&reals, &ip->daddr);
	if (!r)
		return XDP_PASS;
	if (bpf_xdp_adjust_head(ctx, 0 - (int)sizeof(*outer)))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	neth = data;
	outer = (void *)(neth + 1);
	if ((void *)(outer + 1) > end)
		return XDP_DROP;
	__builtin_memcpy(neth->h_source, r->smac, 6);
	__builtin_memcpy(neth->h_dest, r->dmac, 6);
	neth->h_proto = bpf_htons(ETH_P_IP);
	fill(outer, r, bpf_ntohs(ip->tot_len));
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
