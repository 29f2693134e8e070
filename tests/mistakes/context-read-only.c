// The context's field may be read, not written.
// check: reject bad-context-access
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int relabel(struct xdp_md *ctx)
{
	ctx->ingress_ifindex = 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
