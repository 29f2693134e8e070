// Wrong return range.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup_skb/ingress")
int ingress(struct __sk_buff *skb)
{
	if (skb->len > 1400)
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
