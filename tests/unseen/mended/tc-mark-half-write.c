#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int mark_low(struct __sk_buff *skb)
{
	*(volatile __u32 *)&skb->mark = 7;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
