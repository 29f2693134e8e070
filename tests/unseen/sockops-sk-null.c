// Socket of the context used without a null check (sockops).
// Puts established local connections in a sockmap keyed by cookie.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} socks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} born SEC(".maps");

SEC("sockops")
int collect(struct bpf_sock_ops *ops)
{
	__u64 cookie, *when;
	struct bpf_sock *sk;

	if (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (ops->family != 2 || bpf_ntohl(ops->local_ip4) >> 24 != 127)
		return 1;

	cookie = bpf_get_socket_cookie(ops);
	sk = ops->sk;
	if (cookie == 0)
		return 1;
	when = bpf_sk_storage_get(&born, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (when)
		*when = bpf_ktime_get_ns();
	bpf_sock_hash_update(ops, &socks, &cookie, BPF_NOEXIST);
	return 1;
}

char _license[] SEC("license") = "GPL";
