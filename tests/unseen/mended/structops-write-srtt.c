#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("struct_ops/mycc_init")
void BPF_PROG(mycc_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	tp->snd_ssthresh = 0x7fffffff;
}

SEC("struct_ops/mycc_ssthresh")
__u32 BPF_PROG(mycc_ssthresh, struct sock *sk)
{
	return 10;
}

SEC("struct_ops/mycc_avoid")
void BPF_PROG(mycc_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC("struct_ops/mycc_undo")
__u32 BPF_PROG(mycc_undo, struct sock *sk)
{
	return 10;
}

SEC(".struct_ops")
struct tcp_congestion_ops mycc = {
	.init = (void *)mycc_init,
	.ssthresh = (void *)mycc_ssthresh,
	.cong_avoid = (void *)mycc_avoid,
	.undo_cwnd = (void *)mycc_undo,
	.name = "bpf_mycc",
};

char _license[] SEC("license") = "GPL";
