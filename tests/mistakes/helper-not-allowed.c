// The helper belongs to tracing programs.
// check: reject helper-not-allowed
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int who(struct xdp_md *ctx)
{
	return bpf_get_stackid(ctx, ctx, 0) > 0 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
