// Every packet prints a line into a pipe that all programs share.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int watch(struct xdp_md *ctx)
{
	bpf_printk("packet on queue %d", ctx->rx_queue_index);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
