// The socket of the packet is asked for in XDP, which has none.
// line: return bpf_get_socket_cookie(ctx) == 0 ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int root(struct xdp_md *ctx)
{
	return bpf_get_socket_cookie(ctx) == 0 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
