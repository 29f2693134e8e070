// Write to constant data (XDP).
// Sampling whose rate adapts; the rate is set by user space before loading.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 rate = 128;
const volatile __u32 ceiling = 4096;

struct sample {
	__u32 len;
	__u32 rate;
	__u8 dst[6];
	__u16 proto;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 14);
} samples SEC(".maps");

SEC("xdp")
int sampler(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct sample *s;

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (bpf_get_prandom_u32() % (rate ? rate : 1))
		return XDP_PASS;
	s = bpf_ringbuf_reserve(&samples, sizeof(*s), 0);
	if (!s) {
		if (rate < ceiling)
			*(volatile __u32 *)&rate = rate * 2;
		return XDP_PASS;
	}
	s->len = end - data;
	s->rate = rate;
	__builtin_memcpy(s->dst, eth->h_dest, 6);
	s->proto = eth->h_proto;
	bpf_ringbuf_submit(s, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
