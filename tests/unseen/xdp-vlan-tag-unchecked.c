// VLAN parsing.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct vlan_hdr {
	__be16 tci;
	__be16 encap;
};

SEC("xdp")
int vlan_filter(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	__u64 nh_off = sizeof(*eth);
	__be16 proto;

	if (data + nh_off > data_end)
		return XDP_DROP;
	proto = eth->h_proto;

#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD)) {
			struct vlan_hdr *vh = data + nh_off;

			nh_off += sizeof(*vh);
			if (data + sizeof(*eth) > data_end)
				return XDP_DROP;
			proto = vh->encap;
		}
	}
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + nh_off;

		if ((void *)(ip + 1) > data_end)
			return XDP_DROP;
		if (ip->ttl < 2)
			return XDP_DROP;
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
