// Kernel pointer read directly.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1024);
} parents SEC(".maps");

SEC("kprobe/do_exit")
int on_exit(struct pt_regs *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u64 ppid = task->real_parent->tgid;

	bpf_map_update_elem(&parents, &pid, &ppid, BPF_ANY);
	return 0;
}

char _license[] SEC("license") = "GPL";
