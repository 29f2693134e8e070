// The program reads in front of the packet.
// line: return header->h_proto ? XDP_PASS : XDP_DROP;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int before(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *header = data - sizeof(*header);

	if (data + 20 > data_end)
		return XDP_PASS;
	return header->h_proto ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
