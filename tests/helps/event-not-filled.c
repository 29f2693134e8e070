// One member of the event is not written; kernels before 6.3 reject it.
// line: bpf_ringbuf_output(&events, &event, sizeof(event), 0);
// kernel: 5.15
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct event {
	__u64 when;
	__u32 process;
	__u32 result;
};

SEC("tracepoint/syscalls/sys_exit_openat")
int opened(long *args)
{
	struct event event;

	event.when = bpf_ktime_get_ns();
	event.process = bpf_get_current_pid_tgid() >> 32;
	bpf_ringbuf_output(&events, &event, sizeof(event), 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
