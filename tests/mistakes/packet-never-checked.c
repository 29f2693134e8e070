// Nothing compares the packet's bytes with its end.
// check: reject packet-out-of-bounds
// prevail: 4.2
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first_byte(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;

	return data[0] ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
