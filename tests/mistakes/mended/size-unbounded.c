// The size is unsigned, and bounded from both sides.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/raw_syscalls/sys_enter")
int copy(long *args)
{
	char buffer[64];
	unsigned long size = args[3];

	if (size == 0 || size > sizeof(buffer))
		return 0;
	bpf_probe_read_user(buffer, size, (void *)args[2]);
	return buffer[0];
}

char _license[] SEC("license") = "GPL";
