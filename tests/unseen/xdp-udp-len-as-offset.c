// Variable packet offset without limit.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("xdp")
int last_byte(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct udphdr *udp = data + sizeof(struct ethhdr) + sizeof(struct iphdr);
	__u8 *last;
	__u32 len;

	if ((void *)(udp + 1) > data_end)
		return XDP_PASS;
	len = bpf_ntohs(udp->len);
	len = len * 2;
	last = (void *)udp + len;
	if ((void *)(last + 1) > data_end)
		return XDP_PASS;
	return *last == 0 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
