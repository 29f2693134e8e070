// Dynptr slice used after the packet was written (TC).
// Rewrites a destination port and keeps a count by the old one.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

extern int bpf_dynptr_from_skb(struct __sk_buff *s, __u64 flags, struct bpf_dynptr *p) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, __u32 off, void *b, __u32 n) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u16);
	__type(value, __u16);
} moved SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} per_port SEC(".maps");

SEC("tc")
int move_port(struct __sk_buff *skb)
{
	struct udphdr copy, *udp;
	struct bpf_dynptr d;
	__u16 *to, port;
	__u32 idx;
	__u64 *n;

	if (bpf_dynptr_from_skb(skb, 0, &d))
		return 0;
	udp = bpf_dynptr_slice(&d, 34, &copy, sizeof(copy));
	if (!udp)
		return 0;
	port = udp->dest;
	to = bpf_map_lookup_elem(&moved, &port);
	if (!to)
		return 0;
	if (bpf_dynptr_write(&d, 36, to, 2, 0))
		return 2;
	idx = bpf_ntohs(udp->dest);
	n = bpf_map_lookup_elem(&per_port, &idx);
	if (n)
		__sync_fetch_and_add(n, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
