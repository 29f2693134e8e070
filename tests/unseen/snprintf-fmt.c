// Arguments: format not read-only (tp_btf).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct line {
	__u32 len;
	char text[124];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} rb SEC(".maps");

static char fmt[] = "exit pid=%d tgid=%d code=%d\n";

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	__u64 args[3];
	struct line *l;
	long n;

	if (p->pid != p->tgid)
		return 0;

	l = bpf_ringbuf_reserve(&rb, sizeof(*l), 0);
	if (!l)
		return 0;

	args[0] = p->pid;
	args[1] = p->tgid;
	args[2] = p->exit_code >> 8;
	n = bpf_snprintf(l->text, sizeof(l->text), fmt, args, sizeof(args));
	if (n < 0) {
		bpf_ringbuf_discard(l, 0);
		return 0;
	}
	l->len = n;
	bpf_ringbuf_submit(l, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
