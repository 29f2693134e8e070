// Return value (sk_lookup).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u16);
	__type(value, __u32);
} port_to_slot SEC(".maps");

SEC("sk_lookup")
int steer(struct bpf_sk_lookup *ctx)
{
	__u16 port = ctx->local_port;
	struct bpf_sock *sk;
	__u32 *slot;
	long err;

	if (ctx->protocol != IPPROTO_TCP)
		return SK_PASS;
	slot = bpf_map_lookup_elem(&port_to_slot, &port);
	if (!slot)
		return SK_PASS;
	sk = bpf_map_lookup_elem(&listeners, slot);
	if (!sk)
		return SK_DROP;
	err = bpf_sk_assign(ctx, sk, 0);
	bpf_sk_release(sk);
	return err;
}

char LICENSE[] SEC("license") = "GPL";
