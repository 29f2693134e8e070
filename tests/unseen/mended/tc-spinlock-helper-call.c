#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct bucket {
	struct bpf_spin_lock lock;
	__u32 tokens;
	__u64 last;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct bucket);
	__uint(max_entries, 1);
} limiter SEC(".maps");

SEC("tc")
int ratelimit(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct bucket *b = bpf_map_lookup_elem(&limiter, &key);
	int drop = 0;
	__u64 now = bpf_ktime_get_ns();

	if (!b)
		return TC_ACT_OK;
	bpf_spin_lock(&b->lock);
	b->last = now;
	if (b->tokens == 0)
		drop = 1;
	else
		b->tokens--;
	bpf_spin_unlock(&b->lock);
	return drop ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
