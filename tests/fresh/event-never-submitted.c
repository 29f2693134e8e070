// The event is filled and never submitted.
// line: }
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct event {
	__u64 pid;
};

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
	event->pid = bpf_get_current_pid_tgid();
	return 0;
}

char _license[] SEC("license") = "GPL";
