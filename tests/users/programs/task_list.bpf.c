// A list of tasks, as an iterator prints it.
#include "tools.h"

SEC("iter/task")
int list(struct bpf_iter__task *ctx)
{
	struct seq_file *out = ctx->meta->seq;
	struct task_struct *task = ctx->task;

	if (!task) {
		BPF_SEQ_PRINTF(out, "end after %llu\n", ctx->meta->seq_num);
		return 0;
	}
	if (ctx->meta->seq_num == 0)
		BPF_SEQ_PRINTF(out, "pid parent name\n");
	BPF_SEQ_PRINTF(out, "%d %d %s\n", task->pid, task->real_parent->pid, task->comm);
	return 0;
}
