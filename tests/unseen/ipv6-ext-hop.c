// Packet bounds, IPv6 extension headers (XDP).
// Drops ICMPv6 redirects, whatever extension headers stand in front.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ipv6.h>
#include <linux/icmpv6.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define MAX_EXT 4

struct ext {
	__u8 next;
	__u8 len;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

SEC("xdp")
int no_redirects(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct ipv6hdr *ip6 = data + sizeof(*eth);
	__u8 next;

	if ((void *)(ip6 + 1) > end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IPV6))
		return XDP_PASS;

	void *cur = ip6 + 1;
	next = ip6->nexthdr;
	for (int i = 0; i < MAX_EXT; i++) {
		struct ext *e = cur;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_ROUTING)
			break;
		if ((void *)(e + 1) > end)
			return XDP_PASS;
		next = e->next;
		cur += (e->len + 1) * 8;
	}
	if (next != IPPROTO_ICMPV6)
		return XDP_PASS;

	struct icmp6hdr *icmp = cur;
	if ((void *)icmp + 1 >= end)
		return XDP_PASS;
	if (icmp->icmp6_type == 137 && icmp->icmp6_code == 0 && icmp->icmp6_cksum) {
		__u32 zero = 0;
		__u64 *n = bpf_map_lookup_elem(&dropped, &zero);

		if (n)
			__sync_fetch_and_add(n, 1);
		return XDP_DROP;
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
