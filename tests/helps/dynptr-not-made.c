// A dynptr is read that no call has made.
// line: bpf_dynptr_read(&word, sizeof(word), &bytes, 0, 0);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int view(struct __sk_buff *skb)
{
	struct bpf_dynptr bytes;
	__u32 word = 0;

	bpf_dynptr_read(&word, sizeof(word), &bytes, 0, 0);
	return word == 1 ? 2 : 0;
}

char _license[] SEC("license") = "GPL";
