// The metadata before the packet is read, and may be empty.
// line: return *mark == 7 ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int marked(struct xdp_md *ctx)
{
	__u32 *mark = (void *)(long)ctx->data_meta;

	return *mark == 7 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
