// The length is computed from the two pointers and compared; the verifier learns nothing of the packet from it.
// line: return eth->h_proto == bpf_htons(ETH_P_ARP) ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("xdp")
int drop_arp(struct xdp_md *ctx)
{
	__u64 length = ctx->data_end - ctx->data;
	struct ethhdr *eth = (void *)(long)ctx->data;

	if (length < sizeof(*eth))
		return XDP_PASS;
	return eth->h_proto == bpf_htons(ETH_P_ARP) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
