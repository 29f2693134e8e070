// Wrong argument order, strings.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

const char target[] = "sshd";
__u64 hits;

SEC("tp/sched/sched_process_exec")
int is_sshd(void *ctx)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	if (bpf_strncmp(target, sizeof(target), comm) == 0)
		hits++;
	return 0;
}

char _license[] SEC("license") = "GPL";
