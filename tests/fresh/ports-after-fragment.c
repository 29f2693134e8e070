// UDP or TCP: the check covers the first eight bytes, the flags are the fourteenth.
// line: return bits[13] & 2 ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("xdp")
int syn(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u8 *bits = data + sizeof(struct ethhdr) + sizeof(struct iphdr);
	struct udphdr *ports = (void *)bits;

	if ((void *)(ports + 1) > data_end)
		return XDP_PASS;
	if (ports->dest != bpf_htons(443))
		return XDP_PASS;
	return bits[13] & 2 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
