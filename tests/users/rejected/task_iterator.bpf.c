// The last call of an iterator has no task.
#include "tools.h"
SEC("iter/task") int f(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	BPF_SEQ_PRINTF(seq, "%d\n", ctx->task->pid);
	return 0;
}
