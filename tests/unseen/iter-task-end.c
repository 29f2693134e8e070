// Null (iter/task).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
char header[] = "pid      tgid     comm             threads\n";

__u64 seen;

SEC("iter/task")
int dump_leaders(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	static const char fmt_end[] = "total %llu\n";
	int threads;

	if (ctx->meta->seq_num == 0) {
		seen = 0;
		bpf_seq_write(seq, header, sizeof(header) - 1);
	}

	if (task->pid != task->tgid)
		return 0;

	seen++;
	threads = task->signal->nr_threads;
	BPF_SEQ_PRINTF(seq, "%-8d %-8d %-16s %d\n", task->pid, task->tgid,
		       task->comm, threads);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
