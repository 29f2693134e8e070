// Bytes by protocol and remote address at traffic control, both directions.
#include "tools.h"

struct flow { __u32 remote; __u8 protocol, out; __u16 unused; };
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 65536); __type(key, struct flow); __type(value, __u64); } bytes SEC(".maps");

static __always_inline int account(struct __sk_buff *skb, bool out)
{
	struct iphdr ip;
	struct flow key = {};
	__u64 length = skb->len, *sum;

	if (skb->protocol != bpf_htons(0x0800) || bpf_skb_load_bytes(skb, 14, &ip, sizeof(ip)) < 0)
		return -1;
	key.remote = out ? ip.daddr : ip.saddr;
	key.protocol = ip.protocol;
	key.out = out;
	sum = bpf_map_lookup_elem(&bytes, &key);
	if (sum)
		__sync_fetch_and_add(sum, length);
	else
		bpf_map_update_elem(&bytes, &key, &length, BPF_ANY);
	return -1;
}

SEC("tc") int ingress(struct __sk_buff *skb) { return account(skb, false); }
SEC("tc") int egress(struct __sk_buff *skb) { return account(skb, true); }
