// The helper is told the size that the array has.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char last;

SEC("tracepoint/syscalls/sys_enter_openat")
int opened(void *ctx)
{
	char fname[32] = {};

	bpf_probe_read_user_str(fname, sizeof(fname), *(void **)(ctx + 24));
	last = fname[31];
	return 0;
}

char _license[] SEC("license") = "GPL";
