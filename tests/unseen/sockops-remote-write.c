// Context: read-only field written (sockops).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct sock_key {
	__u32 sip;
	__u32 dip;
	__u32 sport;
	__u32 dport;
};

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 65535);
	__type(key, struct sock_key);
	__type(value, __u64);
} socks SEC(".maps");

SEC("sockops")
int collect(struct bpf_sock_ops *ops)
{
	struct sock_key k = {};

	if (ops->family != 2)
		return 1;
	if (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;

	k.sip = ops->local_ip4;
	k.dip = ops->remote_ip4;
	k.sport = ops->local_port;
	k.dport = bpf_ntohl(ops->remote_port);

	if (bpf_sock_hash_update(ops, &socks, &k, BPF_NOEXIST)) {
		ops->remote_ip4 = 0;
		return 1;
	}
	ops->reply = 0;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
