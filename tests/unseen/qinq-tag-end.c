// Packet bounds, second VLAN tag (XDP).
// Counts packets per inner VLAN id on a provider port (802.1ad + 802.1Q).
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct tag {
	__be16 tci;
	__be16 proto;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} per_vid SEC(".maps");

static __always_inline int is_tag(__be16 p)
{
	return p == bpf_htons(ETH_P_8021Q) || p == bpf_htons(ETH_P_8021AD);
}

SEC("xdp")
int count_vid(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	void *pos = (void *)(long)ctx->data;
	struct ethhdr *eth = pos;
	__be16 proto;
	__u32 vid = 0;

	if (pos + sizeof(*eth) > end)
		return XDP_ABORTED;
	proto = eth->h_proto;
	pos += sizeof(*eth);

#pragma unroll
	for (int depth = 0; depth < 2; depth++) {
		struct tag *t = pos;

		if (!is_tag(proto))
			break;
		if ((void *)t > end)
			return XDP_DROP;
		vid = bpf_ntohs(t->tci) & 0xfff;
		proto = t->proto;
		pos += sizeof(*t);
	}

	__u64 *n = bpf_map_lookup_elem(&per_vid, &vid);
	if (n)
		*n += end - pos;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
