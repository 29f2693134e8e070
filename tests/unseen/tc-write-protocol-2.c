// Context: field not writable (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u16);
} strip_on SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} popped SEC(".maps");

SEC("tc")
int pop_vlan(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, k;
	__u16 *tag;
	__u64 *c;

	if (!skb->vlan_present)
		return 0;
	tag = bpf_map_lookup_elem(&strip_on, &ifindex);
	if (!tag || *tag != (skb->vlan_tci & 0xfff))
		return 0;

	skb->priority = skb->vlan_tci >> 13;
	skb->vlan_tci = 0;
	k = bpf_skb_vlan_pop(skb) ? 1 : 0;
	c = bpf_map_lookup_elem(&popped, &k);
	if (c)
		__sync_fetch_and_add(c, 1);
	return k ? 2 : 0;
}

char LICENSE[] SEC("license") = "GPL";
