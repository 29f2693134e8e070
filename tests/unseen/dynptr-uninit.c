// Uninitialized: dynptr (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags, struct bpf_dynptr *p) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, __u32 off, void *buf, __u32 len) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __be32);
	__type(value, __u64);
} talkers SEC(".maps");

const volatile __u8 v4_only = 1;

SEC("tc")
int top_talkers(struct __sk_buff *skb)
{
	struct bpf_dynptr d;
	struct iphdr buf, *ip;
	__u64 one = 1, *n;
	__be32 src;

	if (skb->protocol != bpf_htons(0x0800))
		return 0;
	if (skb->len < 1500)
		bpf_dynptr_from_skb(skb, 0, &d);

	ip = bpf_dynptr_slice(&d, sizeof(struct ethhdr), &buf, sizeof(buf));
	if (!ip)
		return 0;
	src = ip->saddr;
	n = bpf_map_lookup_elem(&talkers, &src);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&talkers, &src, &one, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
