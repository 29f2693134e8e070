// A function that is not static parses the packet: the verifier checks it alone, where its arguments are numbers.
// line: return protocol(data, data_end) == bpf_htons(ETH_P_IP) ? XDP_PASS : XDP_DROP;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

__attribute__((noinline)) int protocol(void *data, void *data_end)
{
	struct ethhdr *header = data;

	if (!data || !data_end)
		return 0;
	if ((void *)(header + 1) > data_end)
		return 0;
	return header->h_proto;
}

SEC("xdp")
int only_ip(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;

	return protocol(data, data_end) == bpf_htons(ETH_P_IP) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
