// Bounds: length to helper (zero/unbounded) (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define SAMPLE_MAX 128

struct pkt_sample {
	__u32 ifindex;
	__u32 len;
	__u8 payload[SAMPLE_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} samples SEC(".maps");

const volatile __u32 sample_rate = 100;

SEC("tc")
int sampler(struct __sk_buff *skb)
{
	__u32 hdr = sizeof(struct ethhdr) + sizeof(struct iphdr);
	struct pkt_sample *s;
	__u32 len;

	if (bpf_get_prandom_u32() % sample_rate)
		return 0;
	if (skb->protocol != bpf_htons(0x0800) || skb->len <= hdr)
		return 0;

	s = bpf_ringbuf_reserve(&samples, sizeof(*s), 0);
	if (!s)
		return 0;

	s->ifindex = skb->ifindex;
	len = skb->len - hdr;
	if (len > SAMPLE_MAX)
		len = sizeof(*s);
	s->len = len;
	if (len == 0 || bpf_skb_load_bytes(skb, hdr, s->payload, len) < 0) {
		bpf_ringbuf_discard(s, 0);
		return 0;
	}
	bpf_ringbuf_submit(s, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
