// The helper is told that the array has 64 bytes, and it has 32.
// check: reject stack-out-of-bounds
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char last;

SEC("tracepoint/syscalls/sys_enter_openat")
int opened(void *ctx)
{
	char fname[32] = {};

	bpf_probe_read_user_str(fname, 64, *(void **)(ctx + 24));
	last = fname[31];
	return 0;
}

char _license[] SEC("license") = "GPL";
