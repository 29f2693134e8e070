// Locks: helper call while holding (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct tb {
	struct bpf_spin_lock lock;
	__u64 tokens;
	__u64 last_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct tb);
} tbs SEC(".maps");

#define RATE_BPNS 1
#define BURST (1 << 20)

SEC("tc")
int police(struct __sk_buff *skb)
{
	__u32 cls = skb->tc_classid & 0xff;
	int drop = 0;
	struct tb *b;
	__u64 now;

	b = bpf_map_lookup_elem(&tbs, &cls);
	if (!b)
		return 0;

	bpf_spin_lock(&b->lock);
	now = bpf_ktime_get_ns();
	b->tokens += (now - b->last_ns) * RATE_BPNS;
	if (b->tokens > BURST)
		b->tokens = BURST;
	b->last_ns = now;
	if (b->tokens < skb->len)
		drop = 1;
	else
		b->tokens -= skb->len;
	bpf_spin_unlock(&b->lock);

	return drop ? 2 : 0;
}

char LICENSE[] SEC("license") = "GPL";
