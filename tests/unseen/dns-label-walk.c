// Off by one at the packet's end (XDP).
// Hashes the name of a DNS query and drops those that are on a list.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct dns {
	__be16 id, flags, qd, an, ns, ar;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10000);
	__type(key, __u32);
	__type(value, __u8);
} blocked SEC(".maps");

SEC("xdp")
int dns_guard(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct dns *q = (void *)(udp + 1);
	__u8 *cur = (__u8 *)(q + 1);
	__u32 hash = 2166136261u;

	if ((void *)cur > end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != 17 ||
	    ip->ihl != 5 || udp->dest != bpf_htons(53))
		return XDP_PASS;
	if (q->qd != bpf_htons(1))
		return XDP_PASS;

	for (int i = 0; i < 64; i++) {
		if ((void *)cur > end)
			return XDP_PASS;
		__u8 c = *cur++;
		if (c == 0)
			break;
		if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		hash = (hash ^ c) * 16777619u;
	}
	if (bpf_map_lookup_elem(&blocked, &hash))
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
