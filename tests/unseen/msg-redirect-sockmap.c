// Map type: sockmap with hash redirect (sk_msg).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct pair {
	__u32 lip;
	__u32 rip;
	__u32 lport;
	__u32 rport;
};

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 1024);
	__uint(key_size, 4);
	__uint(value_size, 4);
} peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} spliced SEC(".maps");

SEC("sk_msg")
int splice(struct sk_msg_md *msg)
{
	struct pair p = {};
	__u32 zero = 0;
	__u64 *n;

	if (msg->family != 2)
		return SK_PASS;
	/* the peer's view of the same connection */
	p.lip = msg->remote_ip4;
	p.rip = msg->local_ip4;
	p.lport = bpf_ntohl(msg->remote_port);
	p.rport = msg->local_port;

	n = bpf_map_lookup_elem(&spliced, &zero);
	if (n)
		*n += msg->size;
	bpf_msg_redirect_hash(msg, &peers, &p, BPF_F_INGRESS);
	return SK_PASS;
}

char LICENSE[] SEC("license") = "GPL";
