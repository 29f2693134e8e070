// A function says whether the header is there; the verifier does not connect its answer.
// line: return eth->h_dest[0] == 0xff ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

static __attribute__((noinline)) int is_there(struct xdp_md *ctx, __u32 size)
{
	return (long)ctx->data + size <= (long)ctx->data_end;
}

SEC("xdp")
int no_broadcast(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;

	if (!is_there(ctx, sizeof(*eth)))
		return XDP_PASS;
	return eth->h_dest[0] == 0xff ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
