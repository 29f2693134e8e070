// The address is a multiple of eight.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int store(struct xdp_md *ctx)
{
	char buffer[16] __attribute__((aligned(8)));

	asm volatile("*(u64 *)(%[buffer] + 8) = %[value]" : : [buffer] "r"(buffer), [value] "r"(ctx->data) : "memory");
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
