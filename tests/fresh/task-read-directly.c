// The current task is a number for the verifier, and it is read directly.
// line: if (task->tgid == 1)
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

int hits;

struct task_struct {
	int pid;
	int tgid;
} __attribute__((preserve_access_index));

SEC("kprobe/do_unlinkat")
int unlinked(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (task->tgid == 1)
		hits++;
	return 0;
}

char _license[] SEC("license") = "GPL";
