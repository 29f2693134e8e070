// The name of a system call's file is user memory, and it is read directly.
// line: if (name[0] == '/')
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct enter {
	__u64 common;
	long number;
	unsigned long args[6];
};

int absolute;

SEC("tracepoint/syscalls/sys_enter_openat")
int opened(struct enter *ctx)
{
	const char *name = (const char *)ctx->args[1];

	if (name[0] == '/')
		absolute++;
	return 0;
}

char _license[] SEC("license") = "GPL";
