// A global array is indexed by the process id.
// line: calls[pid]++;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u32 calls[1024];

SEC("tracepoint/syscalls/sys_enter_openat")
int opened(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	calls[pid]++;
	return 0;
}

char _license[] SEC("license") = "GPL";
