// The helper is for GPL programs, the license says otherwise.
// line: bpf_probe_read_kernel(&first, sizeof(first), (void *)args[1]);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tracepoint/raw_syscalls/sys_enter")
int first(long *args)
{
	long first = 0;

	bpf_probe_read_kernel(&first, sizeof(first), (void *)args[1]);
	return first != 0;
}

char _license[] SEC("license") = "Proprietary";
