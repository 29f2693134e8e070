// The section is misspelt before the slash.
// line: SEC("tracepiont/syscalls/sys_enter_openat")
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepiont/syscalls/sys_enter_openat")
int opened(long *args)
{
	return args[1] == 0;
}

char _license[] SEC("license") = "GPL";
