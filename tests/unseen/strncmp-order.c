// String arguments in the wrong order (tracepoint).
// Watches one program by its name, without a loop.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct tally {
	__u64 runs;
	__u64 last;
	__u32 pid;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

const char wanted[] = "sshd";

SEC("tracepoint/sched/sched_process_exec")
int on_exec(void *ctx)
{
	char comm[16];
	struct tally *t;
	__u32 zero = 0;

	if (bpf_get_current_comm(comm, sizeof(comm)))
		return 0;
	if (bpf_strncmp(wanted, sizeof(wanted), comm))
		return 0;
	t = bpf_map_lookup_elem(&tallies, &zero);
	if (!t)
		return 0;
	__sync_fetch_and_add(&t->runs, 1);
	t->last = bpf_ktime_get_ns();
	t->pid = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

char _license[] SEC("license") = "GPL";
