#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SNAP 128

static __attribute__((noinline)) int tail_sum(struct xdp_md *ctx, __u32 off)
{
	__u8 buf[SNAP];
	int sum = 0;

	if (bpf_xdp_load_bytes(ctx, off, buf, sizeof(buf)))
		return 0;
	for (int i = 0; i < SNAP; i += 16)
		sum += buf[i];
	return sum;
}

SEC("xdp")
int snapshot(struct xdp_md *ctx)
{
	__u8 buf[SNAP];

	if (bpf_xdp_load_bytes(ctx, 0, buf, sizeof(buf)))
		return XDP_PASS;
	return tail_sum(ctx, buf[17]) > buf[18] ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
