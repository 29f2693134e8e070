// Context pointer may be NULL.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("iter/task")
int dump_task(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	__u32 pid;

	pid = task->pid;
	bpf_seq_write(seq, &pid, sizeof(pid));
	return 0;
}

char _license[] SEC("license") = "GPL";
