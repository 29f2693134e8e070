// An address of user space is read like any pointer.
// check: reject not-a-pointer
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char first;

SEC("tracepoint/syscalls/sys_enter_openat")
int opened(void *ctx)
{
	const char *name = *(const char **)(ctx + 24);

	first = name[0];
	return 0;
}

char _license[] SEC("license") = "GPL";
