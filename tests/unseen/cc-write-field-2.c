// Context / write access (struct_ops).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#define min(a, b) ((a) < (b) ? (a) : (b))

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

SEC("struct_ops")
void BPF_PROG(lazy_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_ssthresh = 64;
	tp->snd_una = tp->snd_nxt;
}

SEC("struct_ops")
__u32 BPF_PROG(lazy_ssthresh, struct sock *sk)
{
	__u32 w = tcp_sk(sk)->snd_cwnd;

	return w > 4 ? w / 2 : 2;
}

SEC("struct_ops")
void BPF_PROG(lazy_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->snd_cwnd < tp->snd_ssthresh)
		tp->snd_cwnd = min(tp->snd_cwnd + acked, tp->snd_cwnd_clamp);
}

SEC("struct_ops")
__u32 BPF_PROG(lazy_undo, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC(".struct_ops")
struct tcp_congestion_ops lazy = {
	.init = (void *)lazy_init,
	.ssthresh = (void *)lazy_ssthresh,
	.cong_avoid = (void *)lazy_cong_avoid,
	.undo_cwnd = (void *)lazy_undo,
	.name = "bpf_lazy",
};

char LICENSE[] SEC("license") = "GPL";
