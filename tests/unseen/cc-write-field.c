// Struct_ops: field not writable (struct_ops).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

SEC("struct_ops/gentle_ssthresh")
__u32 BPF_PROG(gentle_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 cwnd = tp->snd_cwnd;

	/* back off by a quarter only */
	cwnd -= cwnd >> 2;
	return cwnd < 2 ? 2 : cwnd;
}

SEC("struct_ops/gentle_cong_avoid")
void BPF_PROG(gentle_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (!tp->is_cwnd_limited)
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	if (tp->srtt_us >> 3 > 100000)
		tp->snd_wnd = tp->snd_wnd / 2;
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

SEC("struct_ops/gentle_undo")
__u32 BPF_PROG(gentle_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops gentle = {
	.ssthresh = (void *)gentle_ssthresh,
	.cong_avoid = (void *)gentle_cong_avoid,
	.undo_cwnd = (void *)gentle_undo,
	.name = "bpf_gentle",
};

char LICENSE[] SEC("license") = "GPL";
