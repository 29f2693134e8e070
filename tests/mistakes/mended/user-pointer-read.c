// A helper copies from user space.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char first;

SEC("tracepoint/syscalls/sys_enter_openat")
int opened(void *ctx)
{
	const char *name = *(const char **)(ctx + 24);

	char copy[16] = {};

	if (bpf_probe_read_user_str(copy, sizeof(copy), name) > 0)
		first = copy[0];
	return 0;
}

char _license[] SEC("license") = "GPL";
