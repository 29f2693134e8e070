// Bounds: map value (append offset) (tracepoint).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define ARG_LEN 128
#define TOTAL 1024

struct exec_rec {
	__u32 pid;
	__u32 used;
	char comm[16];
	char args[TOTAL];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exec_rec);
} rec SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} rb SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int on_execve(struct trace_event_raw_sys_enter *ctx)
{
	const char **argv = (const char **)ctx->args[1];
	__u32 zero = 0, off = 0;
	struct exec_rec *r;
	const char *p;
	long n;
	int i;

	r = bpf_map_lookup_elem(&rec, &zero);
	if (!r)
		return 0;
	r->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(r->comm, sizeof(r->comm));

	for (i = 0; i < 12; i++) {
		p = NULL;
		if (bpf_probe_read_user(&p, sizeof(p), &argv[i]) || !p)
			break;
		if (off >= TOTAL)
			break;
		n = bpf_probe_read_user_str(&r->args[off], ARG_LEN, p);
		if (n <= 0 || n > ARG_LEN)
			break;
		off += n;
	}
	r->used = off;
	bpf_ringbuf_output(&rb, r, sizeof(*r), 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
