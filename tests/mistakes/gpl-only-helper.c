// The helper is for GPL-compatible programs.
// check: reject gpl-only
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/raw_syscalls/sys_enter")
int show(long *args)
{
	bpf_printk("syscall %ld", args[1]);
	return 0;
}

char _license[] SEC("license") = "Apache-2.0";
