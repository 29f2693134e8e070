#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("xdp")
int find_mss(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct tcphdr *tcp = (void *)(ip + 1);
	__u8 *opt;

	if ((void *)(tcp + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP || ip->ihl != 5)
		return XDP_PASS;
	if (!tcp->syn || tcp->doff < 6)
		return XDP_PASS;
	opt = (__u8 *)(tcp + 1);
	if (opt + 4 > (__u8 *)data_end)
		return XDP_PASS;
	if (opt[0] == 2 && opt[1] == 4) {
		__u16 mss = (opt[2] << 8) | opt[3];

		if (mss < 536)
			return XDP_DROP;
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
