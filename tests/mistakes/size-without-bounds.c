// The length of a packet is passed as the size of a buffer.
// check: reject bad-argument-size
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int first(struct __sk_buff *skb)
{
	char head[32] = {};

	if (bpf_skb_load_bytes(skb, 0, head, skb->len))
		return 0;
	return head[0];
}

char _license[] SEC("license") = "GPL";
