// Callback: timer returns nonzero (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define CLOCK_MONOTONIC 1

struct slot {
	struct bpf_timer t;
	__u64 pkts;
	__u64 last;
	__u32 armed;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

static int roll(void *map, __u32 *key, struct slot *s)
{
	s->last = s->pkts;
	s->pkts = 0;
	return bpf_timer_start(&s->t, 1000000000ULL, 0);
}

SEC("tc")
int pps(struct __sk_buff *skb)
{
	__u32 k = skb->queue_mapping & 15;
	struct slot *s;

	s = bpf_map_lookup_elem(&slots, &k);
	if (!s)
		return 0;
	__sync_fetch_and_add(&s->pkts, 1);
	if (!s->armed) {
		s->armed = 1;
		if (bpf_timer_init(&s->t, &slots, CLOCK_MONOTONIC))
			return 0;
		bpf_timer_set_callback(&s->t, roll);
		bpf_timer_start(&s->t, 1000000000ULL, 0);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
