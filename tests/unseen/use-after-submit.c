// Reference (cgroup/sendmsg4).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
struct dns_evt {
	__u64 cgid;
	__u32 ip;
	__u16 port;
	__u16 verdict;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 14);
} rb SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u8);
} resolvers SEC(".maps");

SEC("cgroup/sendmsg4")
int pin_dns(struct bpf_sock_addr *ctx)
{
	struct dns_evt *e;
	__u32 ip = ctx->user_ip4;

	if (ctx->user_port != bpf_htons(53))
		return 1;
	e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);
	if (!e)
		return 1;

	e->cgid = bpf_get_current_cgroup_id();
	e->ip = ip;
	e->port = 53;
	e->verdict = bpf_map_lookup_elem(&resolvers, &ip) ? 1 : 0;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);

	return e->verdict;
}

char LICENSE[] SEC("license") = "GPL";
