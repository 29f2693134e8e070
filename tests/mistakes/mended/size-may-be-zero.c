// No event of no bytes.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/raw_syscalls/sys_enter")
int compare(long *args)
{
	static const char wanted[8] = "usr/bin";
	char path[8];
	unsigned long size = args[3];

	if (size == 0 || size > sizeof(path))
		return 0;
	bpf_probe_read_user(path, sizeof(path), (void *)args[2]);
	return bpf_strncmp(path, size, wanted);
}

char _license[] SEC("license") = "GPL";
