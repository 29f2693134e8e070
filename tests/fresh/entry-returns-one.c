// A program of a function's entry returns something other than 0.
// line: return 1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

int calls;

SEC("fentry/do_unlinkat")
int entered(void *ctx)
{
	calls++;
	return 1;
}

char _license[] SEC("license") = "GPL";
