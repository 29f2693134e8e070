// Context field (cgroup/connect4).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
struct svc {
	__be32 ip;
	__be16 port;
	__u16 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct svc);
	__type(value, struct svc);
} services SEC(".maps");

SEC("cgroup/connect4")
int svc_connect(struct bpf_sock_addr *ctx)
{
	struct svc key = {}, *to;

	if (ctx->protocol != IPPROTO_TCP && ctx->protocol != IPPROTO_UDP)
		return 1;

	key.ip = ctx->user_ip4;
	key.port = ctx->user_port;
	to = bpf_map_lookup_elem(&services, &key);
	if (!to)
		return 1;

	/* dual stack sockets carry the address mapped */
	ctx->user_ip6[3] = to->ip;
	ctx->user_port = to->port;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
