// The map has devices.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	return bpf_redirect_map(&ports, 1, XDP_PASS);
}

char _license[] SEC("license") = "GPL";
