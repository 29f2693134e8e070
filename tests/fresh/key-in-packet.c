// The key of a lookup is in the packet, and nobody checked that it is there.
// line: __u64 *count = bpf_map_lookup_elem(&senders, eth->h_source);
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__uint(key_size, 6);
	__type(value, __u64);
} senders SEC(".maps");

SEC("xdp")
int known(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	__u64 *count = bpf_map_lookup_elem(&senders, eth->h_source);

	return count ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
