// A field is read that no kernel has by this name.
// line: return task->process_id;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct task_struct {
	int process_id;
} __attribute__((preserve_access_index));

SEC("tp_btf/sched_process_exit")
int exiting(unsigned long long *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	return task->process_id;
}

char _license[] SEC("license") = "GPL";
