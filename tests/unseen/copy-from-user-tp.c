// Helper availability: may sleep (tracepoint).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct iov_ev {
	__u32 pid;
	__u32 nr;
	__u64 first_len;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} rb SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_writev")
int on_writev(struct trace_event_raw_sys_enter *ctx)
{
	const void *uiov = (const void *)ctx->args[1];
	struct iovec iov = {};
	struct iov_ev *e;

	if (!ctx->args[2] || ctx->args[2] > 1024)
		return 0;
	if (bpf_copy_from_user(&iov, sizeof(iov), uiov))
		return 0;
	if (iov.iov_len < 4096)
		return 0;

	e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);
	if (!e)
		return 0;
	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->nr = ctx->args[2];
	e->first_len = iov.iov_len;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
