// Iterator's object used without a null check (iter/task).
// Prints threads that have run longest.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

const volatile __u64 at_least = 1000000000ull;
static __u64 shown;

SEC("iter/task")
int busy(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	static const char head[] = "tgid pid run_ms comm\n";
	static const char line[] = "%d %d %llu %s\n";
	static const char tail[] = "%llu shown\n";
	__u64 args[4];

	if (ctx->meta->seq_num == 0) {
		shown = 0;
		bpf_seq_write(seq, head, sizeof(head) - 1);
	}
	args[0] = task->tgid;
	if (!task) {
		args[0] = shown;
		bpf_seq_printf(seq, tail, sizeof(tail), args, 8);
		return 0;
	}
	if (task->se.sum_exec_runtime < at_least)
		return 0;
	args[1] = task->pid;
	args[2] = task->se.sum_exec_runtime / 1000000;
	args[3] = (__u64)(long)task->comm;
	bpf_seq_printf(seq, line, sizeof(line), args, sizeof(args));
	shown++;
	return 0;
}

char _license[] SEC("license") = "GPL";
