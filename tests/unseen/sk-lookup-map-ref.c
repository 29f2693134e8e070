// Reference from a sockmap lookup leaked (sk_lookup).
// Directs a range of ports to the sockets of one server.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} servers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} assigned SEC(".maps");

const volatile __u16 first = 7000, last_port = 7999;

SEC("sk_lookup")
int dispatch(struct bpf_sk_lookup *ctx)
{
	__u32 slot, zero = 0;
	struct bpf_sock *sk;
	__u64 *n;
	long err;

	if (ctx->local_port < first || ctx->local_port > last_port)
		return SK_PASS;
	slot = bpf_ntohl(ctx->remote_ip4) & 7;
	sk = bpf_map_lookup_elem(&servers, &slot);
	if (!sk)
		sk = bpf_map_lookup_elem(&servers, &zero);
	if (!sk)
		return SK_DROP;
	err = bpf_sk_assign(ctx, sk, 0);
	if (err)
		return SK_DROP;
	bpf_sk_release(sk);
	n = bpf_map_lookup_elem(&assigned, &slot);
	if (n)
		__sync_fetch_and_add(n, 1);
	return SK_PASS;
}

char _license[] SEC("license") = "GPL";
