// Record used after submit.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct event {
	__u32 pid;
	__u32 ret;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} rb SEC(".maps");

__u64 by_ret;

SEC("tp/syscalls/sys_exit_openat")
int on_ret(struct trace_event_raw_sys_exit *ctx)
{
	struct event *e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);

	if (!e)
		return 0;
	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->ret = ctx->ret;
	bpf_ringbuf_submit(e, 0);
	by_ret += e->pid;
	return 0;
}

char _license[] SEC("license") = "GPL";
