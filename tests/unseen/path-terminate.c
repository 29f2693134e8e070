// Ring buffer bounds (kprobe/do_sys_openat2).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
struct open_evt {
	char path[64];
	__u32 pid;
	__u32 depth;
	__u64 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096 * 16);
} rb SEC(".maps");

SEC("kprobe/do_sys_openat2")
int BPF_KPROBE(on_open, int dfd, const char *filename, struct open_how *how)
{
	struct open_evt *e;
	long n;
	int i;

	e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);
	if (!e)
		return 0;

	n = bpf_probe_read_user_str(e->path, sizeof(e->path), filename);
	if (n < 0)
		goto drop;

	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->flags = BPF_CORE_READ(how, flags);
	e->depth = 0;
	for (i = 0; i < sizeof(e->path); i++) {
		if (!e->path[i])
			break;
		if (e->path[i] == '/')
			e->depth++;
	}

	/* skip directories: look at the character before the NUL */
	if (e->path[n - 2] == '/')
		goto drop;
	bpf_ringbuf_submit(e, 0);
	return 0;
drop:
	bpf_ringbuf_discard(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
