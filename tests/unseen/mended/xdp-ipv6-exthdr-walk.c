#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ipv6.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define MAX_EXT 4

SEC("xdp")
int skip_exthdrs(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct ipv6hdr *ip6;
	void *pos;
	__u8 next;

	if ((void *)(eth + 1) > data_end)
		return XDP_DROP;
	if (eth->h_proto != bpf_htons(ETH_P_IPV6))
		return XDP_PASS;
	ip6 = (void *)(eth + 1);
	if ((void *)(ip6 + 1) > data_end)
		return XDP_DROP;
	next = ip6->nexthdr;
	pos = ip6 + 1;

	for (int i = 0; i < MAX_EXT; i++) {
		struct ipv6_opt_hdr *opt = pos;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING &&
		    next != IPPROTO_DSTOPTS)
			break;
		if ((void *)(opt + 1) > data_end)
			return XDP_DROP;
		next = opt->nexthdr;
		pos += (opt->hdrlen + 1) * 8;
	}
	return next == IPPROTO_UDP ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
