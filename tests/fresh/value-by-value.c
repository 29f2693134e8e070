// The value is given as a number.
// line: bpf_map_update_elem(&seen, &key, (void *)1, BPF_ANY);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} seen SEC(".maps");

SEC("xdp")
int mark(struct xdp_md *ctx)
{
	__u32 key = ctx->rx_queue_index;

	bpf_map_update_elem(&seen, &key, (void *)1, BPF_ANY);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
