// The loop runs as often as the packet is long.
// line: sum += i ^ sum << 1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int mixed(struct __sk_buff *skb)
{
	__u32 length = skb->len;
	volatile __u32 sum = 0;

	for (__u32 i = 0; i < length; i++)
		sum += i ^ sum << 1;
	return sum == 3 ? 2 : 0;
}

char _license[] SEC("license") = "GPL";
