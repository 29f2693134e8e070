// The tail call goes through an array of numbers.
// line: bpf_tail_call(ctx, &counters, 0);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

SEC("xdp")
int next(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &counters, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
