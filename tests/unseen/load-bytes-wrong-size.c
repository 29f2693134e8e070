// Stack bounds (socket).
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/in.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
struct flow {
	__u32 src;
	__u32 dst;
	__u32 ports;
	__u32 proto;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct flow);
	__type(value, __u64);
} flows SEC(".maps");

SEC("socket")
int flow_bytes(struct __sk_buff *skb)
{
	struct flow f = {};
	struct iphdr ip;
	__u64 len = skb->len, *v;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return 0;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(struct ipv6hdr)) < 0)
		return 0;
	if (ip.protocol != IPPROTO_TCP && ip.protocol != IPPROTO_UDP)
		return 0;

	f.src = ip.saddr;
	f.dst = ip.daddr;
	f.proto = ip.protocol;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + ip.ihl * 4, &f.ports, 4) < 0)
		return 0;

	v = bpf_map_lookup_elem(&flows, &f);
	if (v)
		__sync_fetch_and_add(v, len);
	else
		bpf_map_update_elem(&flows, &f, &len, BPF_NOEXIST);
	return -1;
}

char LICENSE[] SEC("license") = "GPL";
