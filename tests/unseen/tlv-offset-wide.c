// Bounds: packet offset too wide (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct tlv {
	__u8 type;
	__u8 flags;
	__be16 len;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} by_type SEC(".maps");

/* our overlay: eth, ip, udp, 8 byte overlay header, then TLVs */
SEC("tc")
int overlay_tlv(struct __sk_buff *skb)
{
	void *data_end = (void *)(long)skb->data_end;
	void *data = (void *)(long)skb->data;
	__u32 off = 14 + 20 + 8 + 8, type;
	struct tlv *t;
	__u64 *c;
	int i;

	if (skb->protocol != bpf_htons(0x0800))
		return 0;

	for (i = 0; i < 4; i++) {
		t = data + off;
		if ((void *)(t + 1) > data_end)
			break;
		type = t->type;
		if (!type)
			break;
		off += sizeof(*t) + bpf_ntohs(t->len);
		c = bpf_map_lookup_elem(&by_type, &type);
		if (c)
			*c += 1;
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
