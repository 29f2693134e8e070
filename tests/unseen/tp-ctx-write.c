// Context not writable.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("tp/syscalls/sys_enter_openat")
int hide_flags(struct trace_event_raw_sys_enter *ctx)
{
	ctx->args[2] &= ~0x40UL;
	bpf_printk("flags %lx", ctx->args[2]);
	return 0;
}

char _license[] SEC("license") = "GPL";
