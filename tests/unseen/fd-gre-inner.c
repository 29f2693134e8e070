// Bounds: packet (flow_dissector).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define BPF_OK 0
#define BPF_DROP 2

struct port_pair {
	__be16 src;
	__be16 dst;
};

SEC("flow_dissector")
int dissect(struct __sk_buff *skb)
{
	struct bpf_flow_keys *keys = skb->flow_keys;
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct port_pair *ports;
	struct iphdr *ip;
	__u32 hlen, nhoff;

	if (keys->n_proto != bpf_htons(0x0800))
		return BPF_DROP;

	if (keys->nhoff > 256)
		return BPF_DROP;
	nhoff = keys->nhoff & 0x1ff;
	ip = data + nhoff;
	if ((void *)(ip + 1) > data_end)
		return BPF_DROP;

	hlen = ip->ihl * 4;
	if (hlen < sizeof(*ip))
		return BPF_DROP;

	keys->addr_proto = 0x0800;
	keys->ipv4_src = ip->saddr;
	keys->ipv4_dst = ip->daddr;
	keys->ip_proto = ip->protocol;
	keys->thoff = nhoff + hlen;

	if (ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_UDP) {
		ports = data + nhoff + hlen;
		if ((void *)ports + sizeof(ports->src) > data_end)
			return BPF_DROP;
		keys->sport = ports->src;
		keys->dport = ports->dst;
	}
	return BPF_OK;
}

char _license[] SEC("license") = "GPL";
