// Each path gives the record back once.
// check: accept
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
	*event = ctx->rx_queue_index;
	if (ctx->rx_queue_index == 3)
		bpf_ringbuf_discard(event, 0);
	else
		bpf_ringbuf_submit(event, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
