// Wrong argument: key pointer into kernel memory (tp_btf).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct life {
	__u64 born;
	__u64 cpu_ns;
	__u32 parent;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct life);
} lives SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} rb SEC(".maps");

SEC("tp_btf/sched_process_fork")
int BPF_PROG(born, struct task_struct *parent, struct task_struct *child)
{
	struct life l = {};
	__u32 pid = child->pid;

	l.born = bpf_ktime_get_ns();
	l.parent = parent->tgid;
	bpf_map_update_elem(&lives, &pid, &l, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(died, struct task_struct *p)
{
	struct life *l;
	__u32 pid = p->pid;

	l = bpf_map_lookup_elem(&lives, &p->pid);
	if (!l)
		return 0;
	l->cpu_ns = p->se.sum_exec_runtime;
	bpf_ringbuf_output(&rb, l, sizeof(*l), 0);
	bpf_map_delete_elem(&lives, &pid);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
