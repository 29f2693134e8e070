// Map value without null check.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct stats {
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct stats);
	__uint(max_entries, 8);
} xdp_stats SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 key = 0;
	struct stats *st = bpf_map_lookup_elem(&xdp_stats, &key);

	/* user space always puts element 0 in */
	__sync_fetch_and_add(&st->packets, 1);
	__sync_fetch_and_add(&st->bytes, ctx->data_end - ctx->data);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
