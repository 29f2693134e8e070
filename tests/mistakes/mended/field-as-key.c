// The key is a copy of the field.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

SEC("xdp")
int known(struct xdp_md *ctx)
{
	__u32 key = ctx->ingress_ifindex;

	return bpf_map_lookup_elem(&counters, &key) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
