// The length is masked, and the rest of the buffer is checked, but the length may be 0.
// line: if (bpf_skb_load_bytes(skb, 54, buffer, length))
// kernel: 5.15
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char buffer[1024];

SEC("tc")
int copy(struct __sk_buff *skb)
{
	__u32 length = (skb->data_end - skb->data - 54) & 1023;
	int rest = 1024 - length;

	if (rest < 0)
		return 0;
	if (bpf_skb_load_bytes(skb, 54, buffer, length))
		return 0;
	return buffer[0] == 'G' ? 2 : 0;
}

char _license[] SEC("license") = "GPL";
