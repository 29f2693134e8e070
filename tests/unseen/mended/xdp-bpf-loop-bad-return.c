#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct loop_ctx {
	__u32 sum;
	__u32 limit;
};

static long add_one(__u32 i, struct loop_ctx *lc)
{
	lc->sum += i;
	if (lc->sum > lc->limit)
		return 1;
	return 0;
}

SEC("xdp")
int looped(struct xdp_md *ctx)
{
	struct loop_ctx lc = { .limit = ctx->rx_queue_index };

	bpf_loop(100, add_one, &lc, 0);
	return lc.sum > 10 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
