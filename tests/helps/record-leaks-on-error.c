// The record is neither submitted nor discarded when the read fails.
// line: return 1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_openat")
int opened(long *args)
{
	char *path = bpf_ringbuf_reserve(&events, 64, 0);

	if (!path)
		return 0;
	if (bpf_probe_read_user_str(path, 64, (void *)args[3]) < 0)
		return 1;
	bpf_ringbuf_submit(path, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
