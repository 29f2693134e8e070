// The pointer is compared after it was moved, but by a number that may be too large to follow.
// check: reject packet-out-of-bounds
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int byte_at(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;
	unsigned char *byte = data + ctx->rx_queue_index;

	if (byte + 1 > data_end)
		return XDP_DROP;
	return *byte ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
