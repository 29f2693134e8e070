// The length that a helper returned may be an error.
// line: bpf_ringbuf_output(&events, path, size, 0);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_openat")
int opened(long *args)
{
	char path[64] = {};
	long size = bpf_probe_read_user_str(path, sizeof(path), (void *)args[3]);

	bpf_ringbuf_output(&events, path, size, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
