// Half of a pointer is saved, and used as if it were whole.
// check: reject not-a-pointer
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first_byte(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;
	volatile __u32 saved;

	if (data + 1 > data_end)
		return XDP_DROP;
	saved = (__u32)(long)data;
	data = (void *)(long)saved;
	return data[0] ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
