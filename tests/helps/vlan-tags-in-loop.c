// Two VLAN tags may follow, and each is read without a look at the end.
// line: if (vlan->encapsulated != bpf_htons(0x8100))
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct vlan {
	__u16 tag;
	__u16 encapsulated;
};

SEC("xdp")
int untagged(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct vlan *vlan = (void *)(eth + 1);

	if ((void *)(eth + 1) > data_end)
		return XDP_DROP;
	if (eth->h_proto != bpf_htons(ETH_P_8021Q))
		return XDP_PASS;
#pragma clang loop unroll(full)
	for (int i = 0; i < 2; i++) {
		if (vlan->encapsulated != bpf_htons(0x8100))
			return vlan->tag == 5 ? XDP_DROP : XDP_PASS;
		vlan++;
	}
	return vlan->tag & 1 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
