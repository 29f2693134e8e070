// Bounds: packet (sizeof pointer) (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct flow {
	__be32 saddr;
	__be32 daddr;
	__be16 sport;
	__be16 dport;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 10240);
	__type(key, struct flow);
	__type(value, __u32);
} last_window SEC(".maps");

static __always_inline int ok(void *p, __u32 sz, void *end)
{
	return p + sz <= end;
}

SEC("xdp")
int track_window(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip;
	struct tcphdr *th;
	struct flow f = {};
	__u32 win;

	if (!ok(eth, sizeof(*eth), end) || eth->h_proto != bpf_htons(0x0800))
		return XDP_PASS;
	ip = (void *)(eth + 1);
	if (!ok(ip, sizeof(*ip), end) || ip->protocol != IPPROTO_TCP)
		return XDP_PASS;
	th = (void *)(ip + 1);
	if (!ok(th, sizeof(th), end))
		return XDP_PASS;

	f.saddr = ip->saddr;
	f.daddr = ip->daddr;
	f.sport = th->source;
	f.dport = th->dest;
	win = bpf_ntohs(th->window);
	if (th->fin || th->rst)
		bpf_map_delete_elem(&last_window, &f);
	else
		bpf_map_update_elem(&last_window, &f, &win, BPF_ANY);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
