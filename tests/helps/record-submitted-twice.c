// The record is discarded when it is empty, and submitted all the same.
// line: bpf_ringbuf_submit(event, 0);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("xdp")
int report(struct xdp_md *ctx)
{
	__u32 *event = bpf_ringbuf_reserve(&events, 4, 0);
	__u32 index = ctx->rx_queue_index;

	if (!event)
		return XDP_PASS;
	if (index == 0)
		bpf_ringbuf_discard(event, 0);
	bpf_ringbuf_submit(event, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
