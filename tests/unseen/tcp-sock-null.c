// Null: bpf_tcp_sock result (sockops).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct rtt_stat {
	__u32 min_us;
	__u32 max_us;
	__u64 samples;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct rtt_stat);
} rtts SEC(".maps");

static __always_inline void record(__u32 peer, __u32 srtt)
{
	struct rtt_stat *s, init = { srtt, srtt, 1 };

	s = bpf_map_lookup_elem(&rtts, &peer);
	if (!s) {
		bpf_map_update_elem(&rtts, &peer, &init, BPF_NOEXIST);
		return;
	}
	if (srtt < s->min_us)
		s->min_us = srtt;
	if (srtt > s->max_us)
		s->max_us = srtt;
	s->samples++;
}

SEC("sockops")
int rtt_watch(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk;
	struct bpf_tcp_sock *tp;

	switch (ops->op) {
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ops, BPF_SOCK_OPS_RTT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		sk = ops->sk;
		if (!sk)
			break;
		tp = bpf_tcp_sock(sk);
		if (!sk)
			break;
		record(ops->remote_ip4, tp->srtt_us >> 3);
		break;
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
