// A socket that gets DNS only, and a histogram of what it does not get.
#include "tools.h"

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 256); __type(key, __u32); __type(value, __u64); } others SEC(".maps");

SEC("socket")
int dns(struct __sk_buff *skb)
{
	__u8 first, protocol;
	__u16 ports[2];
	__u64 *count;
	__u32 key;

	if (skb->protocol != bpf_htons(0x0800) || bpf_skb_load_bytes(skb, 14, &first, 1) < 0 ||
	    bpf_skb_load_bytes(skb, 14 + 9, &protocol, 1) < 0)
		return 0;
	if (protocol == IPPROTO_UDP && bpf_skb_load_bytes(skb, 14 + (first & 15) * 4, ports, sizeof(ports)) >= 0 &&
	    (ports[0] == bpf_htons(53) || ports[1] == bpf_htons(53)))
		return skb->len;
	key = protocol;
	count = bpf_map_lookup_elem(&others, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}
