// The text to compare with is in a map that may change.
// line: return bpf_strncmp(comm, sizeof(comm), wanted) == 0;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char wanted[16] = "sshd";

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	return bpf_strncmp(comm, sizeof(comm), wanted) == 0;
}

char _license[] SEC("license") = "GPL";
