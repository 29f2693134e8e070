// The packet says how many bytes are copied into the array.
// line: name[i] = data[i + 1];
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char name[16];

SEC("xdp")
int copy(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (data + 64 > data_end)
		return XDP_PASS;
	for (int i = 0; i < data[0] && i < 32; i++)
		name[i] = data[i + 1];
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
