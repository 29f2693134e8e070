// The loop tries again until the exchange succeeds.
// line: while (__sync_val_compare_and_swap(&state, 0, 1) != 0)
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u32 state;

SEC("tc")
int enter(struct __sk_buff *skb)
{
	while (__sync_val_compare_and_swap(&state, 0, 1) != 0)
		;
	return 0;
}

char _license[] SEC("license") = "GPL";
