// Wrong pointer type (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define INT_PORT 8086

/* in-band telemetry: every hop adds itself to the header */
struct int_hdr {
	__u32 hops;
	__u32 latency;
	__u64 ingress_ns;
} __attribute__((packed, aligned(4)));

const volatile __u32 hop_cost = 1;

SEC("xdp")
int int_hop(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct int_hdr *h = (void *)(udp + 1);

	if ((void *)(h + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(0x0800) || ip->ihl != 5)
		return XDP_PASS;
	if (ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(INT_PORT))
		return XDP_PASS;

	if (h->hops >= 16)
		return XDP_DROP;
	__sync_fetch_and_add(&h->hops, hop_cost);
	if (h->hops == hop_cost)
		h->ingress_ns = bpf_ktime_get_ns();
	udp->check = 0;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
