// One comparison with the end covers the byte that is read.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first_byte(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;

	if (data + 1 > (unsigned char *)(long)ctx->data_end)
		return XDP_PASS;
	return data[0] ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
