// The bound is one more than the buffer has.
// line: bpf_probe_read_user(text, size, (void *)args[3]);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/syscalls/sys_enter_write")
int written(long *args)
{
	char text[64] = {};
	__u64 size = args[4];

	if (size > sizeof(text) + 1)
		return 0;
	bpf_probe_read_user(text, size, (void *)args[3]);
	return text[0] == 'x';
}

char _license[] SEC("license") = "GPL";
