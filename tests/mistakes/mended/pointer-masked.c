// Values of maps are aligned already.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tables SEC(".maps");

SEC("xdp")
int aligned(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u64 *value = bpf_map_lookup_elem(&tables, &key);

	if (!value)
		return XDP_DROP;
	return *value ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
