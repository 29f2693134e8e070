// A slice of a packet may be null.
// line: return eth->h_proto == bpf_htons(ETH_P_IP) ? XDP_PASS : XDP_DROP;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

extern int bpf_dynptr_from_xdp(struct xdp_md *x, __u64 flags, struct bpf_dynptr *ptr) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, __u32 offset, void *buffer, __u32 size) __ksym;

SEC("xdp")
int ip_only(struct xdp_md *ctx)
{
	struct ethhdr buffer = {};
	struct bpf_dynptr packet;
	struct ethhdr *eth;

	if (bpf_dynptr_from_xdp(ctx, 0, &packet))
		return XDP_PASS;
	eth = bpf_dynptr_slice(&packet, 0, &buffer, sizeof(buffer));
	return eth->h_proto == bpf_htons(ETH_P_IP) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
