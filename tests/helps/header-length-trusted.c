// The IP header says how long it is, and what follows is read without a check.
// line: return tcp->dest == bpf_htons(22) ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/in.h>
#include <linux/tcp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("xdp")
int no_ssh(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct tcphdr *tcp;

	if ((void *)(ip + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP)
		return XDP_PASS;
	tcp = (void *)ip + ip->ihl * 4;
	return tcp->dest == bpf_htons(22) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
