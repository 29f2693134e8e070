// Iterator (raw_tp/signal_generate).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

#define NPID 32

__u32 ignored[NPID];
__u64 signals;

SEC("raw_tp/signal_generate")
int on_signal(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *t = (void *)ctx->args[2];
	__u32 pid = BPF_CORE_READ(t, tgid);
	struct bpf_iter_num it;
	int *i;

	if (ctx->args[0] == 17 /* SIGCHLD */)
		return 0;

	bpf_iter_num_new(&it, 0, NPID);
	while ((i = bpf_iter_num_next(&it))) {
		__u32 idx = *i;

		if (idx >= NPID)
			break;
		if (ignored[idx] == pid)
			return 0;
	}
	bpf_iter_num_destroy(&it);

	__sync_fetch_and_add(&signals, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
