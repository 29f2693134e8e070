// Context field not writable (TC).
// Takes an MPLS label off and restores the IPv4 packet beneath.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} label_oif SEC(".maps");

SEC("tc")
int pop_label(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	__be32 *shim = (void *)(eth + 1);
	__be16 proto = bpf_htons(ETH_P_IP);
	__u32 label, bottom;

	if ((void *)(shim + 1) > end)
		return TC_ACT_OK;
	if (eth->h_proto != bpf_htons(ETH_P_MPLS_UC))
		return TC_ACT_OK;
	label = bpf_ntohl(*shim) >> 12;
	bottom = bpf_ntohl(*shim) & 0x100;

	__u32 *oif = bpf_map_lookup_elem(&label_oif, &label);
	if (!oif)
		return TC_ACT_SHOT;
	if (!bottom)
		return TC_ACT_PIPE;
	if (bpf_skb_store_bytes(skb, 12, &proto, sizeof(proto), 0))
		return TC_ACT_SHOT;
	if (bpf_skb_adjust_room(skb, -4, BPF_ADJ_ROOM_MAC, 0))
		return TC_ACT_SHOT;
	skb->protocol = proto;
	return bpf_redirect(*oif, 0);
}

char _license[] SEC("license") = "GPL";
