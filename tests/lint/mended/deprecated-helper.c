// The helper for addresses of user space is called.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 last;

SEC("tracepoint/syscalls/sys_enter_openat")
int watch(void *ctx)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), *(void **)(ctx + 24));
	last = word;
	return 0;
}

char _license[] SEC("license") = "GPL";
