// XDP asks for the owner of a socket, which it does not have.
// line: return bpf_get_socket_uid((void *)ctx) ? XDP_PASS : XDP_DROP;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int owner(struct xdp_md *ctx)
{
	return bpf_get_socket_uid((void *)ctx) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
