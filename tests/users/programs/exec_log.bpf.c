// Every execve: who, whose child, and the first bytes of the path.
#include "tools.h"

struct event { __u32 pid, parent; char name[NAME_BYTES]; char path[64]; };
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 16); } events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int enter(struct trace_event_raw_sys_enter *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->pid = bpf_get_current_pid_tgid() >> 32;
	event->parent = BPF_CORE_READ(task, real_parent, tgid);
	bpf_get_current_comm(event->name, sizeof(event->name));
	if (bpf_probe_read_user_str(event->path, sizeof(event->path), (void *)ctx->args[0]) < 0)
		event->path[0] = 0;
	bpf_ringbuf_submit(event, 0);
	return 0;
}
