// Packet bounds (sk_skb/stream_parser).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define MAX_FRAME (1 << 20)

struct frame {
	__be32 len;
	__be16 kind;
	__be16 stream;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} kinds SEC(".maps");

SEC("sk_skb/stream_parser")
int frame_len(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct frame *f = data;
	__u32 k, len;
	__u64 *c;

	/* need the length word before anything can be said */
	if (data + sizeof(f->len) > data_end)
		return 0;

	len = bpf_ntohl(f->len);
	if (len > MAX_FRAME)
		return -1;

	k = bpf_ntohs(f->kind);
	c = bpf_map_lookup_elem(&kinds, &k);
	if (c)
		__sync_fetch_and_add(c, 1);

	return len + sizeof(*f);
}

SEC("sk_skb/stream_verdict")
int frame_verdict(struct __sk_buff *skb)
{
	return SK_PASS;
}

char LICENSE[] SEC("license") = "GPL";
