// A kernel address is read like any pointer.
// check: reject not-a-pointer
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

int last;

SEC("kprobe/do_exit")
int watch(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	last = task->pid;
	return 0;
}

char _license[] SEC("license") = "GPL";
