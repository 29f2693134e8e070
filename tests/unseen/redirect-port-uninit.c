// Uninitialized (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define TC_ACT_OK 0
#define ETH_P_8021Q 0x8100

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} vlan_dev SEC(".maps");

__u64 no_vlan;

static __always_inline int find_dev(struct __sk_buff *skb, __u32 *ifindex)
{
	__u32 vid = skb->vlan_tci & 0xfff;
	__u32 *dev;

	if (!skb->vlan_present) {
		__sync_fetch_and_add(&no_vlan, 1);
		return -1;
	}
	dev = bpf_map_lookup_elem(&vlan_dev, &vid);
	if (!dev || !*dev)
		return -1;
	bpf_skb_vlan_pop(skb);
	*ifindex = *dev;
	return 0;
}

SEC("tc")
int vlan_split(struct __sk_buff *skb)
{
	__u32 ifindex;

	if (skb->ifindex == 1)
		return TC_ACT_OK;
	find_dev(skb, &ifindex);
	skb->mark = 0;
	return bpf_redirect(ifindex, 0);
}

char LICENSE[] SEC("license") = "GPL";
