// The start of the TCP header depends on the packet, and nothing compares its end with the packet's.
// line: if (tcp->dest == bpf_htons(80))
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

SEC("xdp") int drop_web(struct xdp_md *ctx)
{
	void *d = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = d;
	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	struct iphdr *ip = (void *)(eth + 1);
	if ((void *)(ip + 1) > end)
		return XDP_PASS;
	struct tcphdr *tcp = (void *)ip + ip->ihl * 4;
	if (tcp->dest == bpf_htons(80))
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
