// BPF_CORE_READ reads through a helper, at the offset that the running kernel has.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

int last;

SEC("kprobe/do_exit")
int watch(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	last = BPF_CORE_READ(task, pid);
	return 0;
}

char _license[] SEC("license") = "GPL";
