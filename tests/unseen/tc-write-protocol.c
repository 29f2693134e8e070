// Context field not writable.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("tc")
int to_v6(struct __sk_buff *skb)
{
	if (skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	skb->protocol = bpf_htons(ETH_P_IPV6);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
