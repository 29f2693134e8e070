// Packet bounds (sk_msg).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 128);
	__type(key, __u32);
	__type(value, __u64);
} socks SEC(".maps");

enum { CMD_DATA = 'D', CMD_CTRL = 'C', CMD_QUIT = 'Q' };

__u64 stats[3];

SEC("sk_msg")
int route_msg(struct sk_msg_md *msg)
{
	__u8 *data = msg->data;
	__u8 *data_end = msg->data_end;
	__u32 key;

	if (data == data_end)
		return SK_PASS;

	switch (data[0]) {
	case CMD_DATA:
		__sync_fetch_and_add(&stats[0], 1);
		key = msg->remote_port;
		return bpf_msg_redirect_hash(msg, &socks, &key, BPF_F_INGRESS);
	case CMD_CTRL:
		__sync_fetch_and_add(&stats[1], 1);
		return SK_PASS;
	case CMD_QUIT:
		__sync_fetch_and_add(&stats[2], 1);
		return SK_DROP;
	}

	bpf_msg_apply_bytes(msg, 1);
	return SK_PASS;
}

char LICENSE[] SEC("license") = "GPL";
