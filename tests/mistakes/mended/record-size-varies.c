// The largest record is reserved.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("tracepoint/raw_syscalls/sys_enter")
int send(long *args)
{
	char *event = bpf_ringbuf_reserve(&events, 64, 0);

	if (event)
		bpf_ringbuf_submit(event, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
