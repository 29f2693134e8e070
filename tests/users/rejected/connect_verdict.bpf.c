// A verdict that the hook does not have.
#include "tools.h"
SEC("cgroup/connect4") int f(struct bpf_sock_addr *ctx)
{
	if (ctx->user_port == 80) return 5;
	return 1;
}
