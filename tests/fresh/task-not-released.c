// The task of a process id is never released.
// line: }
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

int group_of;

struct task_struct {
	int pid;
	int tgid;
} __attribute__((preserve_access_index));

extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;

SEC("tp_btf/sys_enter")
int group(void *ctx)
{
	struct task_struct *task = bpf_task_from_pid(1);

	if (!task)
		return 0;
	group_of = task->tgid;
	return 0;
}

char _license[] SEC("license") = "GPL";
