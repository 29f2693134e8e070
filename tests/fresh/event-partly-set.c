// A field of the event is set only sometimes, and the whole event is sent.
// line: bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &event, sizeof(event));
// kernel: 5.15
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

struct event {
	__u64 id;
	__u64 time;
};

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	struct event event;

	event.id = bpf_get_current_pid_tgid();
	if (event.id & 1)
		event.time = bpf_ktime_get_ns();
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &event, sizeof(event));
	return 0;
}

char _license[] SEC("license") = "GPL";
