// The length is signed and only its upper end is checked.
// line: bpf_skb_load_bytes(skb, 42, buffer, length);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char buffer[256];

SEC("tc")
int copy(struct __sk_buff *skb)
{
	int length = skb->len - 42;

	if (length > (int)sizeof(buffer))
		length = sizeof(buffer);
	bpf_skb_load_bytes(skb, 42, buffer, length);
	return 0;
}

char _license[] SEC("license") = "GPL";
