// The ring buffer may be full.
// line: event->size = skb->len;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct event {
	__u32 size;
	__u32 mark;
};

SEC("tc")
int report(struct __sk_buff *skb)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	event->size = skb->len;
	event->mark = skb->mark;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
