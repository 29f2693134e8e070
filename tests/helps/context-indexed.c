// The array in the context is indexed with a variable.
// line: return skb->cb[index];
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int scratch(struct __sk_buff *skb)
{
	__u32 index = skb->hash & 3;

	return skb->cb[index];
}

char _license[] SEC("license") = "GPL";
