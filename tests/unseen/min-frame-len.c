// Bounds: packet (length difference) (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>


struct lpm4 {
	__u32 plen;
	__be32 addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct lpm4);
	__type(value, __u32);
} deny SEC(".maps");

SEC("xdp")
int denylist(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct lpm4 k = { .plen = 32 };

	if (ctx->data_end - ctx->data < sizeof(*eth) + sizeof(*ip))
		return XDP_PASS;

	if (eth->h_proto != bpf_htons(0x0800))
		return XDP_PASS;

	k.addr = ip->saddr;
	if (bpf_map_lookup_elem(&deny, &k))
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
