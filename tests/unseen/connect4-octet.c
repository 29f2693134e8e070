// Context field written too narrow (cgroup/connect4).
// Sends connections for a service address to one of four backends.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct svc {
	__be32 vip;
	__be16 port;
	__u16 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, struct svc);
	__type(value, __u32);
} services SEC(".maps");

SEC("cgroup/connect4")
int pick(struct bpf_sock_addr *ctx)
{
	struct svc key = {
		.vip = ctx->user_ip4,
		.port = ctx->user_port,
	};
	__u32 *base;
	__u32 n;

	if (ctx->type != 1 || ctx->protocol != 6)
		return 1;
	base = bpf_map_lookup_elem(&services, &key);
	if (!base)
		return 1;
	n = bpf_get_prandom_u32() & 3;
	if ((bpf_ntohl(*base) & 0xff) > 250)
		return 0;
	ctx->user_ip4 = *base;
	((volatile __u8 *)&ctx->user_ip4)[3] = (bpf_ntohl(*base) & 0xff) + n;
	ctx->user_port = bpf_htons(8080);
	return 1;
}

char _license[] SEC("license") = "GPL";
