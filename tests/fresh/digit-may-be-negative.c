// A character minus '0' may be negative; only the upper end is checked.
// line: seen[digit]++;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 seen[10];

SEC("xdp")
int digits(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	long digit;

	if (data + 1 > data_end)
		return XDP_PASS;
	digit = (long)*(char *)data - '0';
	if (digit > 9)
		return XDP_PASS;
	seen[digit]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
