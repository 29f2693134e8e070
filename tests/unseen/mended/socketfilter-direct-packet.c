#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

SEC("socket")
int only_udp(struct __sk_buff *skb)
{
	__u8 proto = 0;

	if (bpf_skb_load_bytes(skb, 23, &proto, 1))
		return 0;
	return proto == IPPROTO_UDP ? -1 : 0;
}

char _license[] SEC("license") = "GPL";
