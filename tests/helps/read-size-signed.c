// The size is signed: it has an upper bound, and may be negative.
// line: bpf_probe_read_user(text, size, (void *)args[3]);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char text[128];

SEC("tracepoint/syscalls/sys_enter_write")
int written(long *args)
{
	long size = args[4];

	if (size > 128)
		size = 128;
	bpf_probe_read_user(text, size, (void *)args[3]);
	return 0;
}

char _license[] SEC("license") = "GPL";
