// Bounds: packet (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define MAX_QNAME 48

struct dnshdr {
	__be16 id, flags, qd, an, ns, ar;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} blocked SEC(".maps");

static __always_inline __u32 hash_qname(unsigned char *p, void *data_end)
{
	__u32 h = 2166136261u;
	int i;

	if ((void *)(p + 1) > data_end)
		return 0;
	for (i = 0; i < MAX_QNAME; i++) {
		if (*p == 0)
			break;
		h ^= *p;
		h *= 16777619u;
		p++;
	}
	return h;
}

SEC("xdp")
int dns_filter(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct dnshdr *dns = (void *)(udp + 1);
	__u32 h;

	if ((void *)(dns + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(0x0800) || ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
	if (udp->dest != bpf_htons(53) || dns->qd != bpf_htons(1))
		return XDP_PASS;

	h = hash_qname((void *)(dns + 1), data_end);
	if (bpf_map_lookup_elem(&blocked, &h))
		return XDP_DROP;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
