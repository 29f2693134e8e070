// The end of what is read is compared.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (data + 1 > data_end)
		return XDP_DROP;
	return *data ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
