// The map has keys of eight bytes, the program has one of four.
// line: return bpf_map_lookup_elem(&blocked, &address) ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u64);
	__type(value, __u8);
} blocked SEC(".maps");

SEC("xdp")
int block(struct xdp_md *ctx)
{
	__u32 address = ctx->rx_queue_index;

	return bpf_map_lookup_elem(&blocked, &address) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
