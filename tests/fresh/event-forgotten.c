// The filter returns between the reservation and the submission.
// line: }
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct event {
	__u64 pid;
};

__u32 wanted;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	__u64 pid = bpf_get_current_pid_tgid();
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	if (pid >> 32 != wanted)
		return 0;
	event->pid = pid;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
