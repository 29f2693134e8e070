// An argument of the traced function is an address of the kernel, and is read like one of the program.
// line: return *name == 0;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct pt_regs {
	unsigned long skipped[14];
	unsigned long di;
};

SEC("kprobe/do_unlinkat")
int removed(struct pt_regs *ctx)
{
	char *name = (char *)ctx->di;

	return *name == 0;
}

char _license[] SEC("license") = "GPL";
