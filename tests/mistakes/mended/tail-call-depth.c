// The frame above the tail call is small.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
} stages SEC(".maps");

static __attribute__((noinline)) int next(struct xdp_md *ctx, int seed)
{
	volatile char buffer[16];

	buffer[seed & 15] = 1;
	bpf_tail_call(ctx, &stages, 1);
	return buffer[0];
}

SEC("xdp")
int first(struct xdp_md *ctx)
{
	volatile char buffer[64];

	buffer[ctx->rx_queue_index & 63] = 1;
	return next(ctx, buffer[1]) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
