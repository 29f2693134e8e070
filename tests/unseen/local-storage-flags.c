// Wrong flag for bpf_get_local_storage (cgroup_skb/egress).
// Leaky bucket per cgroup, kept in cgroup storage.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct bucket {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 tokens;
	__u64 last;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	__type(key, struct bpf_cgroup_storage_key);
	__type(value, struct bucket);
} buckets SEC(".maps");

const volatile __u64 per_ms = 125000;
const volatile __u64 burst = 1 << 20;

SEC("cgroup_skb/egress")
int shape(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 add;
	struct bucket *b;
	int ok = 1;

	b = bpf_get_local_storage(&buckets, BPF_ANY + 1);
	bpf_spin_lock(&b->lock);
	add = (now - b->last) / 1000000 * per_ms;
	if (add) {
		b->tokens += add;
		b->last = now;
		if (b->tokens > burst)
			b->tokens = burst;
	}
	if (b->tokens < skb->len)
		ok = 0;
	else
		b->tokens -= skb->len;
	bpf_spin_unlock(&b->lock);
	return ok;
}

char _license[] SEC("license") = "GPL";
