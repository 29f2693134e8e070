#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup/getsockopt")
int report_tos(struct bpf_sockopt *ctx)
{
	__u8 *optval = ctx->optval;
	__u8 *end = ctx->optval_end;

	if (ctx->level != 0 || ctx->optname != 1)
		return 1;
	if (optval + 1 > end)
		return 0;
	optval[0] = 0x10;
	ctx->retval = 0;
	return 1;
}

char _license[] SEC("license") = "GPL";
