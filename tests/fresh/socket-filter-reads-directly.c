// A socket filter reads the packet directly, which only other hooks may do.
// line: if ((void *)(eth + 1) > (void *)(long)skb->data_end)
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("socket")
int ip_only(struct __sk_buff *skb)
{
	struct ethhdr *eth = (void *)(long)skb->data;

	if ((void *)(eth + 1) > (void *)(long)skb->data_end)
		return 0;
	return eth->h_proto == bpf_htons(ETH_P_IP) ? skb->len : 0;
}

char _license[] SEC("license") = "GPL";
