// A variable is smaller than the map's key.
#include "tools.h"
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 16); __type(key, __u64); __type(value, __u64); } m SEC(".maps");
SEC("tc") int f(struct __sk_buff *skb)
{
	__u32 k = skb->mark; __u64 one = 1;
	bpf_map_update_elem(&m, &k, &one, 0);
	return 0;
}
