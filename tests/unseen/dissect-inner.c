// Packet bounds (flow_dissector).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define ETH_P_IP 0x0800
#define BPF_OK 0
#define BPF_DROP 2
#define FOU_PORT 5555

SEC("flow_dissector")
int dissect(struct __sk_buff *skb)
{
	struct bpf_flow_keys *keys = skb->flow_keys;
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *iph;
	struct udphdr *udp;
	__u16 thoff = keys->thoff;

	if (keys->n_proto != bpf_htons(ETH_P_IP) || thoff > 512)
		return BPF_DROP;

	iph = data + thoff;
	if ((void *)(iph + 1) > data_end)
		return BPF_DROP;

	keys->addr_proto = ETH_P_IP;
	keys->ipv4_src = iph->saddr;
	keys->ipv4_dst = iph->daddr;
	keys->ip_proto = iph->protocol;
	keys->thoff = thoff + (iph->ihl << 2);

	if (iph->frag_off & bpf_htons(0x3fff)) {
		keys->is_frag = 1;
		return BPF_OK;
	}
	if (iph->protocol != IPPROTO_UDP && iph->protocol != IPPROTO_TCP)
		return BPF_OK;

	udp = (void *)iph + (iph->ihl << 2);
	keys->sport = udp->source;
	keys->dport = udp->dest;
	if (udp->dest == bpf_htons(FOU_PORT))
		keys->is_encap = 1;
	return BPF_OK;
}

char LICENSE[] SEC("license") = "GPL";
