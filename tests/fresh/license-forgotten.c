// There is no license, and the helper wants one.
// line: long left = bpf_probe_read_user(&first, 1, (void *)address);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 address;

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	char first = 0;
	long left = bpf_probe_read_user(&first, 1, (void *)address);

	return left == 0 && first == '/';
}
