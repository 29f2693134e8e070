// The whole pointer is saved.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first_byte(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;
	unsigned char *volatile saved;

	if (data + 1 > data_end)
		return XDP_DROP;
	saved = data;
	data = saved;
	return data[0] ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
