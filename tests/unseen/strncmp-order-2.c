// Wrong argument (tracepoint/sched/sched_process_fork).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, __u32);
	__type(value, __u64);
} curl_pids SEC(".maps");

__u64 total_forks;

SEC("tracepoint/sched/sched_process_fork")
int on_fork(struct trace_event_raw_sched_process_fork *ctx)
{
	char comm[16] = {};
	__u32 child = ctx->child_pid;
	__u64 now;

	__sync_fetch_and_add(&total_forks, 1);
	if (bpf_get_current_comm(comm, sizeof(comm)))
		return 0;

	if (bpf_strncmp("curl", 5, comm) != 0)
		return 0;

	now = bpf_ktime_get_boot_ns();
	bpf_map_update_elem(&curl_pids, &child, &now, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
