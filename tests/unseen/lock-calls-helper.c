// Helper called while a lock is held (TC).
// Token bucket per destination.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct bucket {
	struct bpf_spin_lock lock;
	__u32 drops;
	__u64 tokens;
	__u64 stamp;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

const volatile __u64 rate = 1000, burst = 64000;

SEC("tc")
int police(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + ETH_HLEN;
	int act = TC_ACT_OK;
	struct bucket *b;
	__u64 now = 0;

	if ((void *)(ip + 1) > end || skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	b = bpf_map_lookup_elem(&buckets, &ip->daddr);
	if (!b)
		return TC_ACT_OK;
	bpf_spin_lock(&b->lock);
	now = bpf_ktime_get_ns();
	b->tokens += (now - b->stamp) / 1000 * rate;
	if (b->tokens > burst)
		b->tokens = burst;
	b->stamp = now;
	if (b->tokens >= skb->len) {
		b->tokens -= skb->len;
	} else {
		b->drops++;
		act = TC_ACT_SHOT;
	}
	bpf_spin_unlock(&b->lock);
	return act;
}

char _license[] SEC("license") = "GPL";
