// The record is discarded where it was not reserved.
// line: bpf_ringbuf_discard(event, 0);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	__u64 *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (event)
		*event = bpf_ktime_get_ns();
	bpf_ringbuf_discard(event, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
