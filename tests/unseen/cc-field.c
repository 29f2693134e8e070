// Struct_ops writes a field it may not (struct_ops).
// A toy congestion control: a window that only ever halves.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

__u64 losses;

SEC("struct_ops/gentle_init")
void BPF_PROG(gentle_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (tp->snd_cwnd < 4)
		tp->snd_cwnd = 4;
	tp->snd_ssthresh = 64;
	tp->rcv_ssthresh = 65535;
}

SEC("struct_ops/gentle_ssthresh")
__u32 BPF_PROG(gentle_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 half = tp->snd_cwnd / 2;

	__sync_fetch_and_add(&losses, 1);
	return half < 2 ? 2 : half;
}

SEC("struct_ops/gentle_avoid")
void BPF_PROG(gentle_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/gentle_undo")
__u32 BPF_PROG(gentle_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops gentle = {
	.init = (void *)gentle_init,
	.ssthresh = (void *)gentle_ssthresh,
	.cong_avoid = (void *)gentle_avoid,
	.undo_cwnd = (void *)gentle_undo,
	.name = "bpf_gentle4",
};

char _license[] SEC("license") = "GPL";
