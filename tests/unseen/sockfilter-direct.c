// Context: direct packet access not allowed (socket filter).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct pkt_info {
	__u32 len;
	__u16 proto;
	__u8 l4;
	__u8 ttl;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} out SEC(".maps");

SEC("socket")
int sniff(struct __sk_buff *skb)
{
	struct pkt_info *pi;
	struct iphdr iph;

	if (skb->protocol != bpf_htons(0x0800))
		return 0;

	void *data = (void *)(long)skb->data;
	if (data + 14 + sizeof(iph) > (void *)(long)skb->data_end)
		return 0;
	__builtin_memcpy(&iph, data + 14, sizeof(iph));

	if (iph.protocol != IPPROTO_TCP && iph.protocol != IPPROTO_UDP)
		return 0;

	pi = bpf_ringbuf_reserve(&out, sizeof(*pi), 0);
	if (!pi)
		return 0;
	pi->len = skb->len;
	pi->proto = bpf_ntohs(skb->protocol);
	pi->l4 = iph.protocol;
	pi->ttl = iph.ttl;
	bpf_ringbuf_submit(pi, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
