// An argument of a raw tracepoint is followed.
#include "tools.h"
SEC("raw_tp/sched_switch") int f(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *next = (void *)ctx->args[2];
	return next->pid;
}
