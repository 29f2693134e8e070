// A counter in the packet is added to atomically.
// line: __sync_fetch_and_add((__u32 *)data, 1);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int bump(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;

	if (data + 4 > data_end)
		return XDP_PASS;
	__sync_fetch_and_add((__u32 *)data, 1);
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
