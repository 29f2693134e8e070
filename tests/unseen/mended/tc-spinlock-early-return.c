#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct conn {
	struct bpf_spin_lock lock;
	__u32 state;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct conn);
	__uint(max_entries, 4096);
} conns SEC(".maps");

SEC("tc")
int track(struct __sk_buff *skb)
{
	__u32 key = skb->hash;
	struct conn *c = bpf_map_lookup_elem(&conns, &key);

	if (!c)
		return TC_ACT_OK;
	bpf_spin_lock(&c->lock);
	if (c->state == 3) {
		bpf_spin_unlock(&c->lock);
		return TC_ACT_SHOT;
	}
	c->bytes += skb->len;
	bpf_spin_unlock(&c->lock);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
