// Wrong pointer type (kprobe/tcp_close).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#define AF_INET 2

struct evt {
	__u32 saddr, daddr;
	__u16 lport, dport;
	__u32 pid;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

static __always_inline int report(void *sk_or_ctx, struct sock *sk)
{
	struct evt e = {};

	if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_INET)
		return 0;
	e.saddr = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	e.daddr = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	e.lport = BPF_CORE_READ(sk, __sk_common.skc_num);
	e.dport = BPF_CORE_READ(sk, __sk_common.skc_dport);
	e.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(e.comm, sizeof(e.comm));
	return bpf_perf_event_output(sk_or_ctx, &events, BPF_F_CURRENT_CPU,
				     &e, sizeof(e));
}

SEC("kprobe/tcp_close")
int BPF_KPROBE(on_close, struct sock *sk)
{
	if (!sk)
		return 0;
	report(sk, sk);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
