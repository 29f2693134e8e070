// Active TCP connections, between entry and return of a kernel function.
#include "tools.h"

struct event { __u32 pid, source, target; __u16 port; char name[NAME_BYTES]; };
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 4096); __type(key, __u32); __type(value, struct sock *); } sockets SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __uint(key_size, 4); __uint(value_size, 4); } events SEC(".maps");

SEC("kprobe/tcp_v4_connect")
int BPF_KPROBE(connect, struct sock *socket)
{
	__u32 thread = bpf_get_current_pid_tgid();

	bpf_map_update_elem(&sockets, &thread, &socket, 0);
	return 0;
}

SEC("kretprobe/tcp_v4_connect")
int BPF_KRETPROBE(connected, int result)
{
	__u32 thread = bpf_get_current_pid_tgid();
	struct sock **found = bpf_map_lookup_elem(&sockets, &thread);
	struct event event = {};

	if (!found)
		return 0;
	if (!result) {
		event.pid = bpf_get_current_pid_tgid() >> 32;
		BPF_CORE_READ_INTO(&event.source, *found, __sk_common.skc_rcv_saddr);
		BPF_CORE_READ_INTO(&event.target, *found, __sk_common.skc_daddr);
		event.port = bpf_ntohs(BPF_CORE_READ(*found, __sk_common.skc_dport));
		bpf_get_current_comm(event.name, sizeof(event.name));
		bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &event, sizeof(event));
	}
	bpf_map_delete_elem(&sockets, &thread);
	return 0;
}
