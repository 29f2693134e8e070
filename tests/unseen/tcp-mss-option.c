// Packet bounds, TCP options (TC).
// Lowers the MSS of a SYN that leaves through a tunnel.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

const volatile __u16 clamp = 1360;

SEC("tc")
int mss_clamp(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct tcphdr *tcp = (void *)(ip + 1);

	if ((void *)(tcp + 1) > end)
		return TC_ACT_OK;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 ||
	    ip->protocol != IPPROTO_TCP || !tcp->syn)
		return TC_ACT_OK;

	__u8 *opt = (__u8 *)(tcp + 1);

	for (int i = 0; i < 10; i++) {
		if ((void *)(opt + 1) > end)
			return TC_ACT_OK;
		if (opt[0] == 0)
			break;
		if (opt[0] == 1) {
			opt++;
			continue;
		}
		if ((void *)(opt + 2) > end)
			return TC_ACT_OK;
		if (opt[0] == 2 && opt[1] == 4) {
			__be16 *mss = (__be16 *)(opt + 2);

			if (bpf_ntohs(*mss) > clamp) {
				__be16 was = *mss;

				*mss = bpf_htons(clamp);
				bpf_l4_csum_replace(skb, 14 + 20 + 16, was,
						    bpf_htons(clamp), 2);
			}
			return TC_ACT_OK;
		}
		if (opt[1] < 2)
			break;
		opt += opt[1] & 0x3f;
	}
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
