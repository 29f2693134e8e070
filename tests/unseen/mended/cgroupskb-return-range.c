#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup_skb/ingress")
int ingress(struct __sk_buff *skb)
{
	if (skb->len > 1400)
		return 0;
	return 1;
}

char _license[] SEC("license") = "GPL";
