// A program for IPv4 reads the address of IPv6.
// line: return ctx->user_ip6[3] != bpf_htonl(1);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("cgroup/connect4")
int not_local(struct bpf_sock_addr *ctx)
{
	return ctx->user_ip6[3] != bpf_htonl(1);
}

char _license[] SEC("license") = "GPL";
