// The Ethernet header is read, and nobody has looked whether it is there.
// line: if (eth->h_proto != bpf_htons(ETH_P_IP))
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("xdp")
int filter(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;

	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
