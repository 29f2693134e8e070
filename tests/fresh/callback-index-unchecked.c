// The callback of a loop uses its index without a check of its own.
// line: table[index] = index;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u32 table[100];

static long fill(__u32 index, void *unused)
{
	table[index] = index;
	return 0;
}

SEC("xdp")
int start(struct xdp_md *ctx)
{
	bpf_loop(100, fill, 0, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
