#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct flow {
	__u32 lip;
	__u32 rip;
	__u32 lport;
	__u32 rport;
};

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__type(key, struct flow);
	__type(value, __u32);
	__uint(max_entries, 1024);
} socks SEC(".maps");

SEC("sockops")
int add_established(struct bpf_sock_ops *skops)
{
	struct flow f = {};

	if (skops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 0;
	f.lip = skops->local_ip4;
	f.rip = skops->remote_ip4;
	f.lport = skops->local_port;
	f.rport = skops->remote_port;
	bpf_sock_hash_update(skops, &socks, &f, BPF_ANY);
	return 0;
}

char _license[] SEC("license") = "GPL";
