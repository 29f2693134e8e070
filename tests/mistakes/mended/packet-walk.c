// The turns are counted, and each looks at the end.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int sum(struct xdp_md *ctx)
{
	unsigned char *at = (void *)(long)ctx->data;
	unsigned char *end = (void *)(long)ctx->data_end;
	__u32 sum = 0;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 256 && at + 1 <= end; i++)
		sum += *at++;
	return sum & 1 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
