// The callback of a loop returns two.
// check: reject bad-return-value
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

static long turn(__u32 at, void *sum)
{
	*(__u32 *)sum += at;
	return 2;
}

SEC("tc")
int add(struct __sk_buff *skb)
{
	__u32 sum = 0;

	bpf_loop(8, turn, &sum, 0);
	return sum;
}

char _license[] SEC("license") = "GPL";
