// The length of the TCP header ends its options, and data_end is compared with that end, once.
// repair: v3 repaired-proved
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int options(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct tcphdr *tcp = data + sizeof(struct ethhdr) + sizeof(struct iphdr);
	unsigned char *at = (void *)(tcp + 1);
	unsigned char *end;
	int found = 0;

	if ((void *)(tcp + 1) > data_end)
		return XDP_PASS;
	end = (unsigned char *)tcp + tcp->doff * 4;
	if ((void *)end > data_end)
		return XDP_PASS;
	for (int i = 0; i < 8; i++) {
		if (at >= end)
			break;
		found += *at == 8;
		at += 2;
	}
	return found ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
