// A field of the context that is for reading only is written.
// line: skb->len = 64;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int shorten(struct __sk_buff *skb)
{
	if (skb->len > 64)
		skb->len = 64;
	return 0;
}

char _license[] SEC("license") = "GPL";
