// Return value (netfilter).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define NF_DROP 0
#define NF_ACCEPT 1
#define NF_QUEUE 3

extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags, struct bpf_dynptr *p) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, __u32 off, void *buf, __u32 len) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, __u8);
} suspects SEC(".maps");

SEC("netfilter")
int nf_gate(struct bpf_nf_ctx *ctx)
{
	struct iphdr buf, *ip;
	struct bpf_dynptr d;
	__be32 src;
	__u8 *how;

	if (bpf_dynptr_from_skb((void *)ctx->skb, 0, &d))
		return NF_DROP;
	ip = bpf_dynptr_slice(&d, 0, &buf, sizeof(buf));
	if (!ip)
		return NF_DROP;
	src = ip->saddr;
	how = bpf_map_lookup_elem(&suspects, &src);
	if (!how)
		return NF_ACCEPT;
	if (*how == 1)
		return NF_DROP;
	return NF_QUEUE;
}

char LICENSE[] SEC("license") = "GPL";
