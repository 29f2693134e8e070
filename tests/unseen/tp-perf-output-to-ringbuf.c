// Wrong map type for a helper.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tp/sched/sched_process_fork")
int on_fork(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &id, sizeof(id));
	return 0;
}

char _license[] SEC("license") = "GPL";
