// The pointers are read again after the packet was moved.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int strip(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (data + 20 > data_end)
		return XDP_DROP;
	if (bpf_xdp_adjust_head(ctx, 4))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	if (data + 1 > data_end)
		return XDP_DROP;
	data[0] = 0x45;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
