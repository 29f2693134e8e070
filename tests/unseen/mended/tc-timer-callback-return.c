#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct elem {
	struct bpf_timer t;
	__u64 fired;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct elem);
	__uint(max_entries, 1);
} timers SEC(".maps");

static int on_timer(void *map, __u32 *key, struct elem *e)
{
	e->fired++;
	return 0;
}

SEC("tc")
int arm(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct elem *e = bpf_map_lookup_elem(&timers, &key);

	if (!e)
		return 0;
	bpf_timer_init(&e->t, &timers, 1);
	bpf_timer_set_callback(&e->t, on_timer);
	bpf_timer_start(&e->t, 1000000, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
