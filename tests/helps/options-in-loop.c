// A loop over TCP options follows the lengths in the packet, and checks nothing.
// line: if (*at == 0)
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int find_timestamp(struct xdp_md *ctx)
{
	unsigned char *at = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (at + 20 > data_end)
		return XDP_PASS;
	at += 20;
	for (int i = 0; i < 10; i++) {
		if (*at == 0)
			return XDP_PASS;
		if (*at == 8)
			return XDP_DROP;
		at += *at == 1 ? 1 : at[1];
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
