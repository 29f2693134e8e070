// A map is not an array in memory: its address cannot be moved.
// check: reject pointer-arithmetic
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u64 *slot = (__u64 *)((char *)&counters + 8 * (ctx->rx_queue_index & 63));

	*slot = 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
