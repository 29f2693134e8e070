// A map's value is a timer itself.
#include "tools.h"
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, int); __type(value, struct bpf_timer); } tm SEC(".maps");
static int tick(void *map, int *key, struct bpf_timer *t) { return 1; }
SEC("tc") int f(struct __sk_buff *skb)
{
	int k = 0; struct bpf_timer *t = bpf_map_lookup_elem(&tm, &k);
	if (!t) return 0;
	bpf_timer_init(t, &tm, 1);
	bpf_timer_set_callback(t, tick);
	bpf_timer_start(t, 1000, 0);
	*(long *)t = 4;
	return 0;
}
