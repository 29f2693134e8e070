// A knob that user space sets is an index; the value in the object is too large.
// line: hits[sampled]++;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 sampled = 64;
__u32 hits[64];

SEC("xdp")
int sample(struct xdp_md *ctx)
{
	hits[sampled]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
