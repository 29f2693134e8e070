// The name of the kernel function is misspelt.
// line: struct task_struct *task = bpf_task_from_pdi(1);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct task_struct;
extern struct task_struct *bpf_task_from_pdi(int pid) __ksym;
extern void bpf_task_release(struct task_struct *task) __ksym;

SEC("tc")
int init(struct __sk_buff *skb)
{
	struct task_struct *task = bpf_task_from_pdi(1);

	if (task)
		bpf_task_release(task);
	return 0;
}

char _license[] SEC("license") = "GPL";
