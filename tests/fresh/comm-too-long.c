// One byte more than the buffer has is asked for.
// line: bpf_get_current_comm(comm, sizeof(comm) + 1);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm) + 1);
	return comm[0] == 'x';
}

char _license[] SEC("license") = "GPL";
