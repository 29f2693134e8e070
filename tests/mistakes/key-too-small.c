// The keys of the map have eight bytes, the variable has four.
// check: reject stack-out-of-bounds
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);
	__type(value, __u64);
} counters SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 key = ctx->ingress_ifindex;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	if (value)
		__sync_fetch_and_add(value, 1);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
