// Return value out of range (netfilter).
// Netfilter hook: drops martian sources, accounts the rest.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

extern int bpf_dynptr_from_skb(struct __sk_buff *s, __u64 flags, struct bpf_dynptr *p) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, __u32 off, void *b, __u32 n) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} by_net SEC(".maps");

SEC("netfilter")
int martians(struct bpf_nf_ctx *ctx)
{
	struct sk_buff *skb = ctx->skb;
	struct bpf_dynptr d;
	struct iphdr copy, *ip;
	__u32 net;
	__u64 *n;

	if (ctx->state->pf != 2)
		return 1;
	if (bpf_dynptr_from_skb((void *)skb, 0, &d))
		return 0;
	ip = bpf_dynptr_slice(&d, 0, &copy, sizeof(copy));
	if (!ip)
		return 0;
	net = bpf_ntohl(ip->saddr) >> 24;
	if (net == 127 || net == 0 || net >= 240)
		return 2; /* NF_STOLEN */
	n = bpf_map_lookup_elem(&by_net, &net);
	if (n)
		__sync_fetch_and_add(n, 1);
	return 1;
}

char _license[] SEC("license") = "GPL";
