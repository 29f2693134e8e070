// The size of the pointer is reserved, not that of the event.
// line: event->pid = bpf_get_current_pid_tgid() >> 32;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct event {
	__u64 time;
	__u32 pid;
	__u32 cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(event), 0);

	if (!event)
		return 0;
	event->time = bpf_ktime_get_ns();
	event->pid = bpf_get_current_pid_tgid() >> 32;
	event->cpu = bpf_get_smp_processor_id();
	bpf_ringbuf_submit(event, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
