// Null: second lookup unchecked (cgroup_skb/egress).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct policy {
	__u32 rate_bps;
	__u32 burst;
};

struct tbucket {
	__u64 tokens;
	__u64 last;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct policy);
} policies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct tbucket);
} buckets SEC(".maps");

SEC("cgroup_skb/egress")
int shape(struct __sk_buff *skb)
{
	__u64 cg = bpf_skb_cgroup_id(skb), now = bpf_ktime_get_ns();
	struct tbucket *b, init = {};
	struct policy *p;

	p = bpf_map_lookup_elem(&policies, &cg);
	if (!p)
		return 1;
	b = bpf_map_lookup_elem(&buckets, &cg);
	if (!b) {
		init.tokens = p->burst;
		init.last = now;
		bpf_map_update_elem(&buckets, &cg, &init, BPF_NOEXIST);
		b = bpf_map_lookup_elem(&buckets, &cg);
	}
	b->tokens += (now - b->last) * p->rate_bps / 1000000000ULL;
	if (b->tokens > p->burst)
		b->tokens = p->burst;
	b->last = now;
	if (b->tokens < skb->len)
		return 0;
	b->tokens -= skb->len;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
