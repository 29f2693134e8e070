// Stale packet pointer (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define ETH_P_IP 0x0800

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} decap_stats SEC(".maps");

static __always_inline void bump(__u32 idx)
{
	__u64 *v = bpf_map_lookup_elem(&decap_stats, &idx);

	if (v)
		(*v)++;
}

SEC("xdp")
int ipip_decap(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data, saved;
	struct iphdr *outer = data + sizeof(*eth);

	if ((void *)(outer + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (outer->protocol != IPPROTO_IPIP || outer->ihl != 5) {
		bump(0);
		return XDP_PASS;
	}

	__builtin_memcpy(&saved, eth, sizeof(saved));
	if (bpf_xdp_adjust_head(ctx, sizeof(*outer)))
		return XDP_DROP;

	eth = data;
	if ((void *)(eth + 1) > data_end)
		return XDP_DROP;
	__builtin_memcpy(eth, &saved, sizeof(saved));
	bump(1);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
