// The answer is 0 or 1.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup/connect4")
int verdict(struct bpf_sock_addr *ctx)
{
	return ctx->user_port == 80 ? 0 : 1;
}

char _license[] SEC("license") = "GPL";
