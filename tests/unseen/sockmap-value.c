// Map type / argument (sockops).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
struct sk_key {
	__u32 lip, rip;
	__u32 lport, rport;
};

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 65535);
	__type(key, struct sk_key);
	__type(value, int);
} sock_hash SEC(".maps");

SEC("sockops")
int remember(struct bpf_sock_ops *ops)
{
	struct sk_key k = {};
	int err;

	if (ops->family != 2)
		return 0;
	k.lip = ops->local_ip4;
	k.rip = ops->remote_ip4;
	k.lport = ops->local_port;
	k.rport = ops->remote_port;

	switch (ops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		err = bpf_map_update_elem(&sock_hash, &k, ops, BPF_NOEXIST);
		if (err)
			bpf_printk("sockhash: %d", err);
		break;
	case BPF_SOCK_OPS_RTO_CB:
		bpf_printk("rto, rtt %u", ops->srtt_us >> 3);
		break;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
