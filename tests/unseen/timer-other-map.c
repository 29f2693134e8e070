// Callback / wrong argument (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#define TC_ACT_OK 0
#define CLOCK_MONOTONIC 1

struct flow_state {
	struct bpf_timer expire;
	__u64 packets;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct flow_state);
} flows_v4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct flow_state);
} flows_v6 SEC(".maps");

static int expire_v6(void *map, __u32 *key, struct flow_state *f)
{
	bpf_map_delete_elem(map, key);
	return 0;
}

SEC("tc")
int age_v6(struct __sk_buff *skb)
{
	struct flow_state *f, fresh = {};
	__u32 key = skb->hash;

	f = bpf_map_lookup_elem(&flows_v6, &key);
	if (!f) {
		bpf_map_update_elem(&flows_v6, &key, &fresh, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&flows_v6, &key);
		if (!f)
			return TC_ACT_OK;
		bpf_timer_init(&f->expire, &flows_v4, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&f->expire, expire_v6);
	}
	f->packets++;
	bpf_timer_start(&f->expire, 30000000000ULL, 0);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
