// Pointer argument of a global function may be null (TC).
// Parses ports in a global function so that it is verified once.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct parsed {
	__u16 sport, dport;
	__u8 proto;
	__u8 fragment;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u16);
	__type(value, __u32);
} classes SEC(".maps");

__noinline int parse(struct __sk_buff *skb, struct parsed *out)
{
	__u16 ports[2];
	__u8 vihl;
	__be16 frag;

	out->proto = 0;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &vihl, 1))
		return -1;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + 6, &frag, 2))
		return -1;
	out->fragment = !!(frag & bpf_htons(0x1fff));
	if (bpf_skb_load_bytes(skb, ETH_HLEN + 9, &out->proto, 1))
		return -1;
	if (out->proto != 6 && out->proto != 17)
		return 1;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + (vihl & 15) * 4, ports, 4))
		return -1;
	out->sport = bpf_ntohs(ports[0]);
	out->dport = bpf_ntohs(ports[1]);
	return 0;
}

SEC("tc")
int classify(struct __sk_buff *skb)
{
	struct parsed p = {};
	__u32 *cls;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	if (parse(skb, &p) || p.fragment)
		return TC_ACT_OK;
	cls = bpf_map_lookup_elem(&classes, &p.dport);
	if (!cls)
		cls = bpf_map_lookup_elem(&classes, &p.sport);
	if (cls)
		skb->tc_classid = *cls;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
