// Arguments: size not constant (tracepoint).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct open_ev {
	__u32 pid;
	__s32 dfd;
	__u32 flags;
	__u32 path_len;
	char path[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} rb SEC(".maps");

char tmp[256];

SEC("tracepoint/syscalls/sys_enter_openat")
int on_openat(struct trace_event_raw_sys_enter *ctx)
{
	const char *name = (const char *)ctx->args[1];
	struct open_ev *e;
	long n;

	n = bpf_probe_read_user_str(tmp, sizeof(tmp), name);
	if (n <= 1 || n > sizeof(tmp))
		return 0;
	if (tmp[0] != '/')
		return 0;

	e = bpf_ringbuf_reserve(&rb, offsetof(struct open_ev, path) + n, 0);
	if (!e)
		return 0;
	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->dfd = ctx->args[0];
	e->flags = ctx->args[2];
	e->path_len = n;
	bpf_probe_read_user_str(e->path, sizeof(e->path), name);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
