// The license is one that the kernel takes for GPL-compatible.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/raw_syscalls/sys_enter")
int show(long *args)
{
	bpf_printk("syscall %ld", args[1]);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
