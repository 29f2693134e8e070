// Pointer arithmetic on data_end (XDP).
// Strips packets that carry our four-byte test trailer.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define MAGIC 0x4b494c4e

struct trailer {
	__be32 magic;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} count SEC(".maps");

static __always_inline void bump(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&count, &which);

	if (n)
		__sync_fetch_and_add(n, 1);
}

SEC("xdp")
int trailer_off(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct trailer *t;
	__u64 len = end - data;

	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	if (len < 60 || len > 1500) {
		bump(0);
		return XDP_PASS;
	}
	t = end - sizeof(*t);
	if ((void *)t < data)
		return XDP_PASS;
	if (t->magic != bpf_htonl(MAGIC))
		return XDP_PASS;
	bump(1);
	if (bpf_xdp_adjust_tail(ctx, -(int)sizeof(*t)))
		return XDP_ABORTED;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
