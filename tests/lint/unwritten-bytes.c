// Four bytes of padding go to user space, with what was on the stack before.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct event {
	__u32 pid;
	__u64 nanoseconds;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/sched/sched_process_exit")
int report(void *ctx)
{
	struct event event;

	event.pid = bpf_get_current_pid_tgid() >> 32;
	event.nanoseconds = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, &event, sizeof(event), 0) < 0)
		return 1;
	return 0;
}

char _license[] SEC("license") = "GPL";
