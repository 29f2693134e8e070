// The format of a text is built on the stack: it must be constant.
// line: bpf_snprintf(text, sizeof(text), format, &id, sizeof(id));
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char text[32];

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	char format[] = "id %llu";
	__u64 id = bpf_get_current_pid_tgid();

	bpf_snprintf(text, sizeof(text), format, &id, sizeof(id));
	return 0;
}

char _license[] SEC("license") = "GPL";
