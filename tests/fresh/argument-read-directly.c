// A kprobe's argument is a kernel pointer, and it is read directly.
// line: running = queue->count;
#define __TARGET_ARCH_x86
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct queue {
	__u32 lock;
	__u32 count;
};

__u32 running;

SEC("kprobe/update_rq_clock")
int updated(struct pt_regs *ctx)
{
	struct queue *queue = (void *)PT_REGS_PARM1(ctx);

	running = queue->count;
	return 0;
}

char _license[] SEC("license") = "GPL";
