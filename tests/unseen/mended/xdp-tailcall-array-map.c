#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, 8);
} jumps SEC(".maps");

SEC("xdp")
int entry(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &jumps, 1);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
