// The field is only read.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int relabel(struct xdp_md *ctx)
{
	return ctx->ingress_ifindex == 1 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
