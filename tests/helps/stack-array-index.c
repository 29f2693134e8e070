// A local array is indexed with a number from the packet.
// line: seen[data[0]] = 1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int duplicate(struct xdp_md *ctx)
{
	volatile char seen[32] = {};
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (data + 2 > data_end)
		return XDP_PASS;
	seen[data[0]] = 1;
	return seen[data[1] & 31] ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
