// Bitwise operator on a pointer.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int aligned_word(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	__u32 *word;

	word = (__u32 *)(((unsigned long)data + 17) & ~3UL);
	if ((void *)(word + 1) > data_end)
		return XDP_PASS;
	return *word ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
