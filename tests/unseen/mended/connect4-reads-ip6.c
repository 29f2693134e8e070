#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("cgroup/connect4")
int redirect_local(struct bpf_sock_addr *ctx)
{
	if (ctx->user_ip4 != bpf_htonl(0x7f000001))
		return 1;
	ctx->user_port = bpf_htons(9090);
	return 1;
}

char _license[] SEC("license") = "GPL";
