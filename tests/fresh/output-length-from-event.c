// As much is sent as the event says, which nobody bounds.
// line: bpf_ringbuf_output(&events, event, event->length + 8, 0);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct event {
	__u64 length;
	char text[120];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct event);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_execve")
int started(void *ctx)
{
	__u32 zero = 0;
	struct event *event = bpf_map_lookup_elem(&scratch, &zero);

	if (!event)
		return 0;
	bpf_ringbuf_output(&events, event, event->length + 8, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
