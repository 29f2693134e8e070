// Wrong pointer: user pointer dereferenced (tracepoint).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define AF_INET 2

struct conn_ev {
	__u32 pid;
	__be32 daddr;
	__be16 dport;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_connect")
int on_connect(struct trace_event_raw_sys_enter *ctx)
{
	struct sockaddr_in *uaddr = (struct sockaddr_in *)ctx->args[1];
	struct conn_ev ev = {};
	struct sockaddr_in sin = {};

	if (ctx->args[2] < sizeof(sin))
		return 0;
	sin = *uaddr;
	if (sin.sin_family != AF_INET)
		return 0;
	if (sin.sin_port == bpf_htons(53))
		return 0;

	ev.pid = bpf_get_current_pid_tgid() >> 32;
	ev.daddr = sin.sin_addr.s_addr;
	ev.dport = sin.sin_port;
	bpf_get_current_comm(ev.comm, sizeof(ev.comm));
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &ev, sizeof(ev));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
