// The string is compared with one on the stack; the helper wants a constant.
// line: return bpf_strncmp(comm, sizeof(comm), wanted) == 0;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/syscalls/sys_enter_openat")
int by_name(void *ctx)
{
	char comm[16] = {};
	char wanted[16] = {};

	bpf_get_current_comm(comm, sizeof(comm));
	bpf_get_current_comm(wanted, sizeof(wanted));
	return bpf_strncmp(comm, sizeof(comm), wanted) == 0;
}

char _license[] SEC("license") = "GPL";
