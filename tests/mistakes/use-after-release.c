// The record is written after it was handed over.
// check: reject not-a-pointer
// prevail: 4.5
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("xdp")
int report(struct xdp_md *ctx)
{
	__u32 *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return XDP_PASS;
	bpf_ringbuf_submit(event, 0);
	*event = ctx->rx_queue_index;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
