// Write past the flow keys (flow_dissector).
// Dissects our own ethertype: a tag, then plain IPv4.
#include <linux/bpf.h>
#include <linux/ip.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct tag {
	__be32 tenant;
	__be16 proto;
	__be16 rsvd;
};

struct ports {
	__be16 src, dst;
};

SEC("flow_dissector")
int dissect(struct __sk_buff *skb)
{
	struct bpf_flow_keys *keys = skb->flow_keys;
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct iphdr *ip;
	struct tag *t;

	if (keys->nhoff > 256)
		return BPF_DROP;
	t = data + keys->nhoff;
	if (keys->n_proto != bpf_htons(0x88b5))
		return BPF_FLOW_DISSECTOR_CONTINUE;
	if ((void *)(t + 1) > end)
		return BPF_DROP;
	ip = (void *)(t + 1);
	if ((void *)(ip + 1) > end || t->proto != bpf_htons(ETH_P_IP))
		return BPF_DROP;
	keys->nhoff += sizeof(*t);
	keys->thoff = keys->nhoff + ip->ihl * 4;
	keys->addr_proto = ETH_P_IP;
	keys->ip_proto = ip->protocol;
	keys->ipv4_src = ip->saddr;
	keys->ipv4_dst = ip->daddr;
	*(volatile __u64 *)&keys->flow_label = bpf_ntohl(t->tenant);
	struct ports *p = (void *)(ip + 1);

	if (ip->ihl == 5 && (void *)(p + 1) <= end) {
		keys->sport = p->src;
		keys->dport = p->dst;
	}
	return BPF_OK;
}

char _license[] SEC("license") = "GPL";
