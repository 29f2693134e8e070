// The helper does not know that the address is one of user space.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 last;

SEC("tracepoint/syscalls/sys_enter_openat")
int watch(void *ctx)
{
	__u64 word = 0;

	bpf_probe_read(&word, sizeof(word), *(void **)(ctx + 24));
	last = word;
	return 0;
}

char _license[] SEC("license") = "GPL";
