/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The least that answers `get` over TCP in the kernel (docs/decisions/0014-no-tcp-in-the-kernel.md): no order of replies, no locks, no
 * misses, values in an array. A store could only be slower.
 *
 *	socket -> verdict: marks a whole request -> its own socket, by a kernel worker -> reply: writes the value over it
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define KEYS 4096
#define REQUEST_BYTES 12 /* "get 001234\r\n" */
#define REPLY_BYTES 155 /* "VALUE 001234 0 128\r\n<value>\r\nEND\r\n" */
#define GET 0x20746567u
#define MARK 1

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} sockets SEC(".maps");

struct item {
	char reply[160];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, KEYS);
	__type(key, __u32);
	__type(value, struct item);
} items SEC(".maps");

const volatile __u32 is_serving;
__u64 served;

SEC("sk_skb/stream_verdict")
int verdict(struct __sk_buff *packet)
{
	__u32 port = packet->remote_port;
	char mark = MARK, text[REQUEST_BYTES];

	if (!is_serving || packet->len != REQUEST_BYTES || bpf_skb_load_bytes(packet, 0, text, REQUEST_BYTES))
		return SK_PASS;
	if (*(__u32 *)text != GET || text[10] != '\r')
		return SK_PASS;
	/* In one piece: each piece is sent, and comes to `reply`, by itself. */
	if (bpf_skb_pull_data(packet, REQUEST_BYTES) || bpf_skb_store_bytes(packet, 0, &mark, 1, 0))
		return SK_PASS;
	__sync_fetch_and_add(&served, 1);
	return bpf_sk_redirect_hash(packet, &sockets, &port, 0);
}

SEC("sk_msg")
int reply(struct sk_msg_md *message)
{
	char *data, *end;
	struct item *item;
	__u32 key = 0;

	if (bpf_msg_pull_data(message, 0, REQUEST_BYTES, 0))
		return SK_PASS;
	data = message->data;
	end = message->data_end;
	if (data + REQUEST_BYTES > end || data[0] != MARK)
		return SK_PASS;
	for (int at = 4; at < 10; at++)
		key = key * 10 + (data[at] - '0');
	key %= KEYS;
	item = bpf_map_lookup_elem(&items, &key);
	if (!item || bpf_msg_push_data(message, REQUEST_BYTES, REPLY_BYTES - REQUEST_BYTES, 0) ||
	    bpf_msg_pull_data(message, 0, REPLY_BYTES, 0))
		return SK_DROP;
	data = message->data;
	end = message->data_end;
	if (data + REPLY_BYTES > end)
		return SK_DROP;
	__builtin_memcpy(data, item->reply, REPLY_BYTES);
	return SK_PASS;
}

char LICENSE[] SEC("license") = "GPL";
