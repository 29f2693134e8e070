// One of the buffers is a value of a per-CPU map.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, char[300]);
} buffers SEC(".maps");

static __attribute__((noinline)) int inner(struct xdp_md *ctx, int seed)
{
	__u32 key = 0;
	volatile char *buffer = bpf_map_lookup_elem(&buffers, &key);

	if (!buffer)
		return 0;
	buffer[seed & 255] = ctx->rx_queue_index;
	return buffer[0];
}

SEC("xdp")
int outer(struct xdp_md *ctx)
{
	volatile char buffer[300];

	buffer[ctx->rx_queue_index & 255] = 1;
	return inner(ctx, buffer[1]) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
