// The start of the packet is compared with its end, and a byte is read.
// check: reject packet-out-of-bounds
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (data >= data_end)
		return XDP_DROP;
	return *data ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
