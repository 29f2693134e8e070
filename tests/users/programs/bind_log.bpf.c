// bind() by port, with options of the socket that are bit fields.
#include "tools.h"

struct event { __u32 pid; __u16 port; __u8 reuse, transparent; };
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __uint(key_size, 4); __uint(value_size, 4); } events SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 64); __type(key, __u16); __type(value, __u8); } ports SEC(".maps");

const volatile bool by_port = true;

SEC("kprobe/inet_bind")
int BPF_KPROBE(bound, struct socket *socket, struct sockaddr *address)
{
	struct sock *sock = BPF_CORE_READ(socket, sk);
	struct inet_sock *inet = (void *)sock;
	__u16 port = bpf_ntohs(BPF_CORE_READ(inet, inet_sport));
	struct event event = { bpf_get_current_pid_tgid() >> 32, port };

	if (by_port && !bpf_map_lookup_elem(&ports, &port))
		return 0;
	event.reuse = BPF_CORE_READ_BITFIELD_PROBED(sock, __sk_common.skc_reuse);
	event.transparent = BPF_CORE_READ_BITFIELD_PROBED(sock, __sk_common.skc_reuseport);
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &event, sizeof(event));
	return 0;
}
