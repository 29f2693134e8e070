// One byte is checked, four are read.
// line: return *(__u32 *)at == 0xdeadbeef ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int magic(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	unsigned char *at = data + 40;

	if (at + 1 > (unsigned char *)data_end)
		return XDP_PASS;
	return *(__u32 *)at == 0xdeadbeef ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
