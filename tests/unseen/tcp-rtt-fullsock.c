// Null (cgroup_skb/egress).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
struct rtt {
	__u32 srtt;
	__u32 cwnd;
	__u64 acked;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rtt);
} rtts SEC(".maps");

SEC("cgroup_skb/egress")
int track_rtt(struct __sk_buff *skb)
{
	struct bpf_tcp_sock *tp;
	struct bpf_sock *sk;
	struct rtt *r;

	sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	if (sk->protocol != 6 /* IPPROTO_TCP */)
		return 1;

	tp = bpf_tcp_sock(sk);
	r = bpf_sk_storage_get(&rtts, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!r)
		return 1;
	r->srtt = tp->srtt_us >> 3;
	r->cwnd = tp->snd_cwnd;
	r->acked = tp->bytes_acked;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
