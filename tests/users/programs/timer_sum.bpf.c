// Callbacks: a sum over a map that a timer starts anew.
#include "tools.h"

struct element { struct bpf_timer timer; __u64 sum; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct element); } state SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 256); __type(key, __u32); __type(value, __u64); } counts SEC(".maps");

static long add(struct bpf_map *map, __u32 *key, __u64 *value, __u64 *sum)
{
	*sum += *value;
	return 0;
}

static int fired(void *map, __u32 *key, struct element *element)
{
	__u64 sum = 0;

	bpf_for_each_map_elem(&counts, add, &sum, 0);
	element->sum = sum;
	bpf_timer_start(&element->timer, 1000000000, 0);
	return 0;
}

SEC("tc")
int start(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct element *element = bpf_map_lookup_elem(&state, &zero);

	if (!element)
		return 0;
	bpf_timer_init(&element->timer, &state, 1);
	bpf_timer_set_callback(&element->timer, fired);
	bpf_timer_start(&element->timer, 0, 0);
	return 0;
}
