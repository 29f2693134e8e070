// Wrong pointer type (tp_btf/sys_enter).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
struct io_state {
	__u64 entered;
	__u64 total;
	__u32 nr;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct io_state);
} io SEC(".maps");

#define NR_fsync 74

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *regs, long id)
{
	struct io_state *s;
	struct task_struct *me = (void *)bpf_get_current_task();

	if (id != NR_fsync)
		return 0;
	s = bpf_task_storage_get(&io, me, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (s)
		s->entered = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *regs, long ret)
{
	struct io_state *s;

	s = bpf_task_storage_get(&io, bpf_get_current_task_btf(), 0, 0);
	if (!s || !s->entered)
		return 0;
	s->total += bpf_ktime_get_ns() - s->entered;
	s->entered = 0;
	s->nr++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
