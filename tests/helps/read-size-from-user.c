// The size of the read comes from the system call.
// line: bpf_probe_read_user(text, size, (void *)args[3]);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char text[128];

SEC("tracepoint/syscalls/sys_enter_write")
int written(long *args)
{
	__u32 size = args[4];

	bpf_probe_read_user(text, size, (void *)args[3]);
	return 0;
}

char _license[] SEC("license") = "GPL";
