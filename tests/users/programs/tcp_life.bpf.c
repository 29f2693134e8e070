// Life spans of TCP connections by their changes of state.
#include "tools.h"

struct event { __u64 span_us, received, sent; __u16 port, family; __u8 address[16]; };
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8192); __type(key, const void *); __type(value, __u64); } births SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 18); } events SEC(".maps");

SEC("tracepoint/sock/inet_sock_set_state")
int state(struct trace_event_raw_inet_sock_set_state *ctx)
{
	const void *socket = ctx->skaddr;
	__u64 now = bpf_ktime_get_ns(), *born;
	struct tcp_sock *tcp = (void *)socket;
	struct event *event;
	int entered = ctx->newstate;

	// One load at a fixed offset: the kernel takes no context pointer that was moved.
	barrier_var(entered);
	if (ctx->protocol != IPPROTO_TCP)
		return 0;
	if (entered < TCP_FIN_WAIT1)
		bpf_map_update_elem(&births, &socket, &now, BPF_ANY);
	if (entered != TCP_CLOSE)
		return 0;
	born = bpf_map_lookup_elem(&births, &socket);
	if (!born)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (event) {
		event->span_us = (now - *born) / 1000;
		event->received = BPF_CORE_READ(tcp, bytes_received);
		event->sent = BPF_CORE_READ(tcp, bytes_acked);
		event->port = ctx->dport;
		event->family = ctx->family;
		bpf_probe_read_kernel(event->address, sizeof(event->address), ctx->daddr_v6);
		bpf_ringbuf_submit(event, 0);
	}
	bpf_map_delete_elem(&births, &socket);
	return 0;
}
