// The packet is read in the branch in which the check failed.
// line: return eth->h_dest[5] == 1 ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int swapped(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) <= data_end) {
		bpf_printk("short packet");
		return XDP_PASS;
	}
	return eth->h_dest[5] == 1 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
