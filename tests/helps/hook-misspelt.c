// The section is misspelt.
// line: SEC("xpd")
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xpd")
int pass(struct xdp_md *ctx)
{
	return ctx->data == ctx->data_end ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
