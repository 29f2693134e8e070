// Return value (netfilter).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define NF_DROP 0
#define NF_ACCEPT 1
#define NF_STOLEN 2

extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags,
			       struct bpf_dynptr *ptr) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, __u32 off,
			      void *buf, __u32 sz) __ksym;

__u64 dropped_frags;

SEC("netfilter")
int no_frags(struct bpf_nf_ctx *ctx)
{
	struct __sk_buff *skb = (struct __sk_buff *)ctx->skb;
	struct bpf_dynptr ptr;
	struct iphdr buf = {}, *ip;
	__u16 frag;

	if (ctx->state->pf != 2)
		return NF_ACCEPT;
	if (bpf_dynptr_from_skb(skb, 0, &ptr))
		return NF_DROP;
	ip = bpf_dynptr_slice(&ptr, 0, &buf, sizeof(buf));
	if (!ip)
		return NF_DROP;

	frag = bpf_ntohs(ip->frag_off);
	if (frag & 0x3fff) {
		__sync_fetch_and_add(&dropped_frags, 1);
		return NF_STOLEN;
	}
	return NF_ACCEPT;
}

char LICENSE[] SEC("license") = "GPL";
