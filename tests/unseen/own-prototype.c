// Uninitialized: argument register (short prototype) (tracepoint).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* the build box has old headers, so we carry our own */
static long (*perf_output)(void *ctx, void *map, __u64 flags, void *data) = (void *)25;

struct chmod_ev {
	__u32 pid;
	__u32 mode;
	__u64 ts;
	char path[96];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_fchmodat")
int on_chmod(struct trace_event_raw_sys_enter *ctx)
{
	struct chmod_ev ev = {};
	__u32 mode = ctx->args[2];

	if (!(mode & 06000))
		return 0;

	ev.pid = bpf_get_current_pid_tgid() >> 32;
	ev.mode = mode;
	ev.ts = bpf_ktime_get_ns();
	bpf_probe_read_user_str(ev.path, sizeof(ev.path), (void *)ctx->args[1]);

	perf_output(ctx, &events, BPF_F_CURRENT_CPU, &ev);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
