// Packet pointers after bpf_xdp_adjust_head.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct encap_hdr {
	__u32 id;
	__u32 seq;
};

SEC("xdp")
int push_hdr(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct encap_hdr *enc;

	if ((void *)(eth + 1) > data_end)
		return XDP_DROP;
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*enc)))
		return XDP_DROP;
	enc = data;
	if ((void *)(enc + 1) > data_end)
		return XDP_DROP;
	enc->id = bpf_htonl(42);
	enc->seq = 0;
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
