// Bounds: packet (sk_skb/stream_parser).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct msg_hdr_v1 {
	__u8 magic;
	__u8 version;
	__be16 stream;
	__be32 length;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} parse_stats SEC(".maps");

static __always_inline void bump(__u32 idx)
{
	__u64 *c = bpf_map_lookup_elem(&parse_stats, &idx);

	if (c)
		__sync_fetch_and_add(c, 1);
}

SEC("sk_skb/stream_parser")
int rpc_parser(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct msg_hdr_v1 *h = data;
	__u32 len;

	if (data + offsetof(struct msg_hdr_v1, length) > data_end) {
		bump(1);
		return 0;
	}
	if (h->magic != 0xa7 || h->version != 1)
		return skb->len;

	len = bpf_ntohl(h->length);
	if (len > 1 << 20)
		return -22;
	bump(0);
	return len + sizeof(*h);
}

char _license[] SEC("license") = "GPL";
