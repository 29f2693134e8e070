// Pointer arithmetic: on or_null (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct dir_stat {
	__u64 packets;
	__u64 bytes;
};

struct if_stat {
	__u32 flags;
	__u32 mtu_seen;
	struct dir_stat dir[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct if_stat);
} ifs SEC(".maps");

static __always_inline int count(struct __sk_buff *skb, int which)
{
	__u32 idx = skb->ifindex;
	struct dir_stat *d = NULL;
	struct if_stat *s;

	s = bpf_map_lookup_elem(&ifs, &idx);
	d = &s->dir[which];
	if (!d)
		return 0;
	__sync_fetch_and_add(&d->packets, 1);
	__sync_fetch_and_add(&d->bytes, skb->len);
	return 0;
}

SEC("tc")
int count_in(struct __sk_buff *skb)
{
	return count(skb, 0);
}

SEC("tc")
int count_out(struct __sk_buff *skb)
{
	return count(skb, 1);
}

char LICENSE[] SEC("license") = "GPL";
