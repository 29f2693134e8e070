// Map value bounds (tracepoint/syscalls/sys_enter_execve).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#define ARGSIZE 64
#define TOTAL (ARGSIZE * 8)

struct exec_event {
	__u32 pid;
	__u32 argc;
	__u32 size;
	char args[TOTAL];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exec_event);
} heap SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int on_execve(struct trace_event_raw_sys_enter *ctx)
{
	const char **argv = (const char **)ctx->args[1];
	struct exec_event *e;
	const char *p;
	__u32 zero = 0;
	long n;
	int i;

	e = bpf_map_lookup_elem(&heap, &zero);
	if (!e)
		return 0;
	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->argc = 0;
	e->size = 0;

	for (i = 0; i < 8; i++) {
		if (bpf_probe_read_user(&p, sizeof(p), &argv[i]) || !p)
			break;
		if (e->size >= TOTAL)
			break;
		n = bpf_probe_read_user_str(&e->args[e->size], ARGSIZE, p);
		if (n <= 0)
			break;
		e->argc++;
		e->size += n;
	}

	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, e, sizeof(*e));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
