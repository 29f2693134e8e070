// Loop over the packet, off by one.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int sum_words(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	__u16 *p = data + sizeof(struct ethhdr);
	__u32 sum = 0;

	for (int i = 0; i < 256; i++) {
		if ((void *)p + 1 > data_end)
			break;
		sum += *p;
		p++;
	}
	sum = (sum >> 16) + (sum & 0xffff);
	return sum == 0xffff ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
