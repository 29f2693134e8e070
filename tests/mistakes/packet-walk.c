// The loop ends where the packet does, and nothing says when that is.
// check: reject packet-out-of-bounds
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int sum(struct xdp_md *ctx)
{
	unsigned char *at = (void *)(long)ctx->data;
	unsigned char *end = (void *)(long)ctx->data_end;
	__u32 sum = 0;

#pragma clang loop unroll(disable)
	while (at + 1 <= end)
		sum += *at++;
	return sum & 1 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
