// Null: inner map (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, __u32);
} inner_proto SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 64);
	__type(key, __u32);
	__array(values, struct inner);
} per_if SEC(".maps") = { .values = { &inner_proto } };

SEC("xdp")
int per_if_acl(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	__u32 ifidx = ctx->ingress_ifindex, *act;
	void *acl;
	__be32 src;

	if ((void *)(ip + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(0x0800))
		return XDP_PASS;
	src = ip->saddr;

	acl = bpf_map_lookup_elem(&per_if, &ifidx);
	act = bpf_map_lookup_elem(acl, &src);
	if (!act)
		return XDP_PASS;
	return *act == 1 ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
