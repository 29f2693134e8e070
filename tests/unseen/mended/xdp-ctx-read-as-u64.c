#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct xdp_ctx {
	__u32 data;
	__u32 data_end;
};

SEC("xdp")
int drop_runts(struct xdp_ctx *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;

	if (data + 60 > data_end)
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
