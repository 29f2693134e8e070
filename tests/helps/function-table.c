// The handler is taken from a table of functions: there are no indirect calls.
// line: return handlers[ctx->rx_queue_index & 1](ctx);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

static __attribute__((noinline)) int pass(struct xdp_md *ctx)
{
	return ctx->data == ctx->data_end ? XDP_DROP : XDP_PASS;
}

static __attribute__((noinline)) int drop(struct xdp_md *ctx)
{
	return ctx->ingress_ifindex == 1 ? XDP_DROP : XDP_PASS;
}

static int (*const handlers[])(struct xdp_md *) = { pass, drop };

SEC("xdp")
int dispatch(struct xdp_md *ctx)
{
	return handlers[ctx->rx_queue_index & 1](ctx);
}

char _license[] SEC("license") = "GPL";
