#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct tlv {
	volatile __u8 type;
	volatile __u8 len;
	__u8 value[];
};

struct rec {
	__u8 bytes[32];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct rec);
	__uint(max_entries, 1);
} recs SEC(".maps");

SEC("xdp")
int record_tlv(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct tlv *t = data + sizeof(struct ethhdr);
	struct rec *r;
	__u32 key = 0;
	__u8 len;

	if ((void *)(t + 1) > data_end)
		return XDP_PASS;
	r = bpf_map_lookup_elem(&recs, &key);
	if (!r)
		return XDP_PASS;
	len = t->len;
	if (len >= sizeof(r->bytes))
		return XDP_PASS;
	r->bytes[len] = t->type;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
