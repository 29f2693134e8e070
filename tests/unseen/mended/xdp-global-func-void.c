#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 total;

__attribute__((noinline)) int account(__u32 bytes)
{
	__sync_fetch_and_add(&total, bytes);
	return 0;
}

SEC("xdp")
int meter(struct xdp_md *ctx)
{
	account(ctx->data_end - ctx->data);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
