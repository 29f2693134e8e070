// The value has four bytes and is read as eight.
// line: return *(__u64 *)value > 9 ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} limits SEC(".maps");

SEC("xdp")
int limited(struct xdp_md *ctx)
{
	__u32 key = ctx->ingress_ifindex;
	void *value = bpf_map_lookup_elem(&limits, &key);

	if (!value)
		return XDP_PASS;
	return *(__u64 *)value > 9 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
