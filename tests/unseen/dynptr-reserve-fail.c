// Ring buffer dynptr not given back when the reservation fails (tracepoint).
// Variable-length records through a ring buffer dynptr.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct head {
	__u32 pid;
	__u32 len;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} rb SEC(".maps");

struct exec_args {
	__u64 common;
	long nr;
	const char *filename;
	const char *const *argv;
	const char *const *envp;
};

SEC("tracepoint/syscalls/sys_enter_execve")
int on_exec(struct exec_args *ctx)
{
	char path[128];
	struct bpf_dynptr d;
	struct head h;
	long n;

	n = bpf_probe_read_user_str(path, sizeof(path), ctx->filename);
	if (n <= 0)
		return 0;
	h.pid = bpf_get_current_pid_tgid() >> 32;
	h.len = n;
	if (bpf_ringbuf_reserve_dynptr(&rb, sizeof(h) + n, 0, &d)) {
		return 0;
	}
	bpf_dynptr_write(&d, 0, &h, sizeof(h), 0);
	if (n > sizeof(path))
		n = sizeof(path);
	bpf_dynptr_write(&d, sizeof(h), path, n & 127, 0);
	bpf_ringbuf_submit_dynptr(&d, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
