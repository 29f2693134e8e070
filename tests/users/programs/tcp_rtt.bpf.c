// Round-trip times when segments of established connections arrive.
#include "tools.h"

struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 1024); __type(key, __u32); __type(value, __u64); } rtts SEC(".maps");

SEC("fentry/tcp_rcv_established")
int BPF_PROG(received, struct sock *socket)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(socket);
	__u32 address = socket->__sk_common.skc_daddr;
	__u64 rtt, *sum;

	if (!tcp)
		return 0;
	rtt = tcp->srtt_us >> 3;
	sum = bpf_map_lookup_elem(&rtts, &address);
	if (sum)
		__sync_fetch_and_add(sum, rtt);
	else
		bpf_map_update_elem(&rtts, &address, &rtt, BPF_NOEXIST);
	return 0;
}
