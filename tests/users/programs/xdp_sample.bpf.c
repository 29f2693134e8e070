// One packet in so many goes to user space; the others are counted by port.
#include "tools.h"

struct packet_sample { __u32 length; __u8 bytes[64]; };
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 18); } samples SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 65536); __type(key, __u32); __type(value, __u64); } ports SEC(".maps");

const volatile __u32 one_in = 64;

static void take(struct xdp_md *ctx, __u32 length)
{
	struct packet_sample *sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);

	if (!sample)
		return;
	sample->length = length;
	if (length < sizeof(sample->bytes) || bpf_xdp_load_bytes(ctx, 0, sample->bytes, sizeof(sample->bytes)) < 0) {
		bpf_ringbuf_discard(sample, 0);
		return;
	}
	bpf_ringbuf_submit(sample, 0);
}

SEC("xdp")
int sampled(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp;
	__u64 *count;
	__u32 port;

	if (!(bpf_get_prandom_u32() % one_in))
		take(ctx, end - data);
	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(0x0800) || ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
	udp = (void *)ip + ip->ihl * 4;
	if ((void *)(udp + 1) > end)
		return XDP_PASS;
	port = bpf_ntohs(udp->dest);
	count = bpf_map_lookup_elem(&ports, &port);
	if (count)
		*count += 1;
	return XDP_PASS;
}
