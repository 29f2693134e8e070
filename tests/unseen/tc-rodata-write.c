// Write to read-only data.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 seen = 0;

SEC("tc")
int once(struct __sk_buff *skb)
{
	if (!seen) {
		*(volatile __u32 *)&seen = 1;
		skb->mark = 1;
	}
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
