// A signed index is compared with its upper bound only.
#include "tools.h"
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 16); __type(key, __u32); __type(value, __u64[4]); } m SEC(".maps");
SEC("tc") int f(struct __sk_buff *skb)
{
	__u32 k = 0; int i = skb->mark;
	__u64 *v = bpf_map_lookup_elem(&m, &k);
	if (!v) return 0;
	if (i > 3) return 0;
	v[i] = 1;
	return 0;
}
