// The map and the context are given in the wrong order.
// line: bpf_perf_event_output(&events, ctx, BPF_F_CURRENT_CPU, &event, sizeof(event));
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	__u64 event = bpf_get_current_pid_tgid();

	bpf_perf_event_output(&events, ctx, BPF_F_CURRENT_CPU, &event, sizeof(event));
	return 0;
}

char _license[] SEC("license") = "GPL";
