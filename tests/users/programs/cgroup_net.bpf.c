// A control group's network: bytes, a list of ports that may be connected to, and devices.
#include "tools.h"

struct { __uint(type, BPF_MAP_TYPE_CGROUP_STORAGE); __type(key, struct bpf_cgroup_storage_key); __type(value, __u64); } bytes SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 1024); __type(key, __u16); __type(value, __u8); } allowed SEC(".maps");

SEC("cgroup_skb/egress")
int count(struct __sk_buff *skb)
{
	__u64 *sum = bpf_get_local_storage(&bytes, 0);

	__sync_fetch_and_add(sum, skb->len);
	return 1;
}

SEC("cgroup/connect4")
int connect(struct bpf_sock_addr *ctx)
{
	__u16 port = bpf_ntohs(ctx->user_port);

	return bpf_map_lookup_elem(&allowed, &port) ? 1 : 0;
}

SEC("cgroup/sock_create")
int create(struct bpf_sock *ctx)
{
	if (ctx->type == 3)
		return 0;
	ctx->mark = 7;
	return 1;
}

SEC("cgroup/dev")
int device(struct bpf_cgroup_dev_ctx *ctx)
{
	return ctx->major == 1 && (ctx->minor == 3 || ctx->minor == 5);
}
