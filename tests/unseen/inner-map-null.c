// Inner map used without a null check (XDP).
// Per-tenant block lists: an outer map by VLAN, an inner map by address.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __be32);
	__type(value, __u32);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__array(values, struct inner);
} tenants SEC(".maps");

struct vhdr {
	struct ethhdr eth;
	__be16 tci;
	__be16 proto;
};

SEC("xdp")
int tenant_filter(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct vhdr *v = data;
	struct iphdr *ip = (void *)(v + 1) - 2 + 2;
	__u32 vid, *rule;
	__be32 src;
	void *list;

	if ((void *)(ip + 1) > end)
		return XDP_PASS;
	if (v->eth.h_proto != bpf_htons(ETH_P_8021Q) || v->proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	vid = bpf_ntohs(v->tci) & 0xfff;
	src = ip->saddr;
	list = bpf_map_lookup_elem(&tenants, &vid);
	rule = bpf_map_lookup_elem(list, &src);
	if (!rule)
		return XDP_PASS;
	if (*rule == 1)
		return XDP_DROP;
	if (*rule == 2)
		return XDP_TX;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
