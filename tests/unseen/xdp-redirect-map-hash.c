// Wrong map type for a helper.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, 64);
} tx_ports SEC(".maps");

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	return bpf_redirect_map(&tx_ports, ctx->ingress_ifindex, 0);
}

char _license[] SEC("license") = "GPL";
