// A part of the packet is sent to user space; only its first bytes are checked.
// line: bpf_ringbuf_output(&events, data, 64, 0);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("xdp")
int sample(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;

	if (data + 14 > data_end)
		return XDP_PASS;
	bpf_ringbuf_output(&events, data, 64, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
