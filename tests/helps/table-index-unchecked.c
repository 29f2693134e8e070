// The index comes from the packet, and the table has 64 entries.
// line: hits[data[0]]++;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u32 hits[64];

SEC("xdp")
int hit(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (data + 1 > data_end)
		return XDP_PASS;
	hits[data[0]]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
