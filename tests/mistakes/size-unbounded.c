// The size comes from outside, and is bounded from above only.
// check: reject bad-argument-size
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/raw_syscalls/sys_enter")
int copy(long *args)
{
	char buffer[64];
	long size = args[3];

	if (size > (long)sizeof(buffer))
		return 0;
	bpf_probe_read_user(buffer, size, (void *)args[2]);
	return buffer[0];
}

char _license[] SEC("license") = "GPL";
