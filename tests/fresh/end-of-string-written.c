// A string is ended at the length that the helper returned, which may be an error.
// line: name[length] = '/';
#define __TARGET_ARCH_x86
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char name[64];

SEC("kprobe/do_unlinkat")
int removed(struct pt_regs *ctx)
{
	const char *path = (const char *)PT_REGS_PARM2(ctx);
	long length = bpf_probe_read_kernel_str(name, sizeof(name), path);

	name[length] = '/';
	return 0;
}

char _license[] SEC("license") = "GPL";
