// The offset is 32 bits of the packet: the check is there, but the sum may be too large for the verifier.
// line: return *at == 7 ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int follow(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u8 *at = data;

	if (data + 4 > data_end)
		return XDP_PASS;
	at += *(__u32 *)data;
	if ((void *)(at + 1) > data_end)
		return XDP_PASS;
	return *at == 7 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
