// A return keeps a lock.
#include "tools.h"
struct v { struct bpf_spin_lock l; __u64 n; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 16); __type(key, __u32); __type(value, struct v); } m SEC(".maps");
SEC("tc") int f(struct __sk_buff *skb)
{
	__u32 k = 0; struct v *v = bpf_map_lookup_elem(&m, &k);
	if (!v) return 0;
	bpf_spin_lock(&v->l);
	if (v->n > 10) return 2;
	v->n = bpf_ktime_get_ns();
	bpf_spin_unlock(&v->l);
	return 0;
}
