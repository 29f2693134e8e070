// The offset is masked to the size of the array, and eight bytes are read at it.
// line: return *(__u64 *)(value->bytes + offset) ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct blob {
	__u8 bytes[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct blob);
} blobs SEC(".maps");

SEC("xdp")
int word(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u32 offset = ctx->rx_queue_index & 255;
	struct blob *value = bpf_map_lookup_elem(&blobs, &zero);

	if (!value)
		return XDP_PASS;
	return *(__u64 *)(value->bytes + offset) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
