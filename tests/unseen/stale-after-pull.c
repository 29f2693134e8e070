// Packet pointers used after a helper that moves the packet (TC).
// Marks VXLAN traffic by the VNI of its outer header.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct vxlan {
	__be32 flags;
	__be32 vni;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} vni_mark SEC(".maps");

SEC("tc")
int mark_vni(struct __sk_buff *skb)
{
	const __u32 need = sizeof(struct ethhdr) + sizeof(struct iphdr) +
			   sizeof(struct udphdr) + sizeof(struct vxlan);
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;

	if (data + need > end)
		return TC_ACT_OK;
	if (skb->len > 1400 && bpf_skb_pull_data(skb, need + 40))
		return TC_ACT_OK;

	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct vxlan *vx = (void *)(udp + 1);

	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != 17)
		return TC_ACT_OK;
	if (udp->dest != bpf_htons(4789))
		return TC_ACT_OK;

	__u32 vni = bpf_ntohl(vx->vni) >> 8;
	__u32 *mark = bpf_map_lookup_elem(&vni_mark, &vni);
	if (mark)
		skb->mark = *mark;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
