// Null (sk_lookup).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} listeners SEC(".maps");

struct portrange {
	__u16 lo, hi;
	__u32 slot;
};

const volatile struct portrange ranges[3] = {
	{ 7000, 7099, 0 },
	{ 8000, 8999, 1 },
	{ 9000, 9009, 2 },
};

static __always_inline int slot_for(__u32 port)
{
	int i;

	for (i = 0; i < 3; i++)
		if (port >= ranges[i].lo && port <= ranges[i].hi)
			return ranges[i].slot;
	return -1;
}

SEC("sk_lookup")
int steer(struct bpf_sk_lookup *ctx)
{
	struct bpf_sock *sk;
	int slot, err;
	__u32 key;

	if (ctx->protocol != IPPROTO_TCP)
		return SK_PASS;
	slot = slot_for(ctx->local_port);
	if (slot < 0)
		return SK_PASS;

	key = slot;
	sk = bpf_map_lookup_elem(&listeners, &key);
	err = bpf_sk_assign(ctx, sk, 0);
	bpf_sk_release(sk);
	return err ? SK_DROP : SK_PASS;
}

char LICENSE[] SEC("license") = "GPL";
