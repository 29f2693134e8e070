// Return value out of range (cgroup_skb/ingress).
// Per-container byte budget; a dry container's packets are thrown away.
#include <linux/bpf.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct budget {
	__u64 left;
	__u64 denied;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct budget);
} budgets SEC(".maps");

SEC("cgroup_skb/ingress")
int meter(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data;
	__u64 cg = bpf_skb_cgroup_id(skb);
	struct budget *b;

	if (skb->protocol != bpf_htons(0x0800))
		return 1;
	if ((void *)(ip + 1) > end)
		return 1;
	if ((ip->daddr & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000))
		return 1;
	b = bpf_map_lookup_elem(&budgets, &cg);
	if (!b)
		return 1;
	if (b->left < skb->len) {
		__sync_fetch_and_add(&b->denied, skb->len);
		return TC_ACT_SHOT;
	}
	__sync_fetch_and_sub(&b->left, skb->len);
	return 1;
}

char _license[] SEC("license") = "GPL";
