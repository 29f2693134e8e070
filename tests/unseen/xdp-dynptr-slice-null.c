// Dynptr slice without null check.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

extern int bpf_dynptr_from_xdp(struct xdp_md *xdp, __u64 flags, struct bpf_dynptr *ptr) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *ptr, __u32 offset, void *buffer, __u32 buffer__szk) __ksym;

SEC("xdp")
int by_dynptr(struct xdp_md *ctx)
{
	struct bpf_dynptr ptr;
	struct ethhdr buf, *eth;

	if (bpf_dynptr_from_xdp(ctx, 0, &ptr))
		return XDP_DROP;
	eth = bpf_dynptr_slice(&ptr, 0, &buf, sizeof(buf));
	return eth->h_proto == bpf_htons(0x0800) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
