// Null: iterator context (iter/task).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct row {
	__u32 pid;
	__u32 tgid;
	__u64 utime;
	__u64 stime;
	__u64 start;
	char comm[16];
};

const volatile __u32 only_tgid;

SEC("iter/task")
int dump_tasks(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *t = ctx->task;
	struct row r = {};

	if (only_tgid && t->tgid != only_tgid)
		return 0;

	r.pid = t->pid;
	r.tgid = t->tgid;
	r.utime = t->utime;
	r.stime = t->stime;
	r.start = t->start_time;
	bpf_probe_read_kernel_str(r.comm, sizeof(r.comm), t->comm);

	if (ctx->meta->seq_num == 0)
		r.start |= 1ULL << 63;	/* marks the first record */
	bpf_seq_write(seq, &r, sizeof(r));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
