// A callback returns two.
#include "tools.h"
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 16); __type(key, __u32); __type(value, __u64); } m SEC(".maps");
struct ctxs { __u64 n; };
static long cb(void *map, const void *key, void *val, struct ctxs *c) { c->n += *(__u64 *)val; return 2; }
SEC("tc") int f(struct __sk_buff *skb)
{
	struct ctxs c = {};
	bpf_for_each_map_elem(&m, cb, &c, 0);
	return c.n;
}
