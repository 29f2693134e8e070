// The size is bounded from both sides.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int first(struct __sk_buff *skb)
{
	char head[32] = {};
	__u32 size = skb->len;

	if (size == 0 || size > sizeof(head))
		return 0;
	if (bpf_skb_load_bytes(skb, 0, head, size))
		return 0;
	return head[0];
}

char _license[] SEC("license") = "GPL";
