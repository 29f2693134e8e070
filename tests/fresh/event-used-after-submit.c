// The event is read after it was submitted.
// line: last = event->pid;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct event {
	__u64 time;
	__u64 pid;
};

__u64 last;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->time = bpf_ktime_get_ns();
	event->pid = bpf_get_current_pid_tgid();
	bpf_ringbuf_submit(event, 0);
	last = event->pid;
	return 0;
}

char _license[] SEC("license") = "GPL";
