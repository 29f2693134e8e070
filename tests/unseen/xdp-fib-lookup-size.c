// Wrong argument size.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int route(struct xdp_md *ctx)
{
	struct bpf_fib_lookup params = {};
	int rc;

	params.family = 2;
	params.ifindex = ctx->ingress_ifindex;
	rc = bpf_fib_lookup(ctx, &params, sizeof(params) * 8, 0);
	if (rc == BPF_FIB_LKUP_RET_SUCCESS)
		return bpf_redirect(params.ifindex, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
