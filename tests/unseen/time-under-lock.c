// Lock (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
struct slot {
	struct bpf_spin_lock lock;
	__u32 burst;
	__u64 last;
	__u64 tokens;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u16);
	__type(value, struct slot);
} ports SEC(".maps");

SEC("xdp")
int syn_shaper(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + 14;
	struct tcphdr *tcp = (void *)(ip + 1);
	int action = XDP_PASS;
	__u16 port;
	__u64 now;
	struct slot *s;

	if ((void *)(tcp + 1) > data_end)
		return XDP_PASS;
	if (ip->version != 4 || ip->protocol != IPPROTO_TCP || !tcp->syn)
		return XDP_PASS;

	port = bpf_ntohs(tcp->dest);
	s = bpf_map_lookup_elem(&ports, &port);
	if (!s)
		return XDP_PASS;

	bpf_spin_lock(&s->lock);
	now = bpf_ktime_get_ns();
	if (now - s->last > 1000000) {
		s->last = now;
		s->tokens = s->burst;
	}
	if (s->tokens)
		s->tokens--;
	else
		action = XDP_DROP;
	bpf_spin_unlock(&s->lock);
	return action;
}

char LICENSE[] SEC("license") = "GPL";
