// The line was for debugging, and is gone.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int watch(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
