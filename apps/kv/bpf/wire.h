/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * memcached's text protocol over UDP, as an XDP program meets it: one request in one datagram of IPv4.
 *
 *	0        14     34    42          50
 *	Ethernet | IPv4 | UDP | id ...    | get key\r\n
 *	                                  | set key flags seconds bytes\r\n<value>\r\n
 */
#ifndef KV_WIRE_H
#define KV_WIRE_H

#include <bpf/bpf_endian.h>
#include <kiln/packet.h>

#define KV_IP 14
#define KV_UDP 34
#define KV_TEXT 50
#define KV_KEY (KV_TEXT + 4)
#define KV_KEY_MOST 250
#define KV_GET 0x20746567u /* "get " */
#define KV_SET 0x20746573u /* "set " */
/* Seconds that are not a date. */
#define KV_RELATIVE_MOST (60 * 60 * 24 * 30)

/*
 * The distance of the datagram's end, if the packet is a request to an address and port (in network order); else 0. The first four
 * bytes of the request's text are in `command`.
 */
static __always_inline __u64 kv_request(struct xdp_md *ctx, __u64 address, __u64 port, __u32 *command)
{
	void *packet = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 bytes;

	if (packet + KV_KEY + 3 > end)
		return 0;
	if (*(__u16 *)(packet + 12) != bpf_htons(0x0800) || *(__u8 *)(packet + KV_IP) != 0x45)
		return 0;
	/* To this machine: no broadcast, and nothing that it forwards. From one machine that can have an answer. */
	if (((*(__u8 *)packet | *(__u8 *)(packet + 6)) & 1) || *(__u32 *)(packet + 30) != address)
		return 0;
	if (!*(__u8 *)(packet + 26) || *(__u8 *)(packet + 26) == 127 || *(__u8 *)(packet + 26) >= 224)
		return 0;
	/* No part of a fragmented datagram. */
	if ((*(__u16 *)(packet + 20) & bpf_htons(0x3fff)) || *(__u8 *)(packet + 23) != 17)
		return 0;
	/* From the server's own port or address: an answer to it would be answered. */
	if (*(__u16 *)(packet + 34) == port || !*(__u16 *)(packet + 34) || *(__u32 *)(packet + 26) == address)
		return 0;
	if (*(__u16 *)(packet + 36) != port || *(__u16 *)(packet + 44) || *(__u16 *)(packet + 46) != bpf_htons(1))
		return 0;
	*command = *(__u32 *)(packet + KV_TEXT);
	/* Both lengths say the same. */
	bytes = bpf_ntohs(*(__u16 *)(packet + 38));
	if (bytes > KILN_PACKET_MOST - KV_UDP || bytes + KV_UDP - KV_IP != bpf_ntohs(*(__u16 *)(packet + 16)))
		return 0;
	bytes = kiln_packet_masked(bytes, KILN_PACKET_MOST);
	return bytes >= KV_KEY + 3 - KV_UDP && packet + KV_UDP + bytes <= end ? KV_UDP + bytes : 0;
}

/* Whether a number's text is as memcached would print it. */
static __always_inline int kv_is_plain(struct xdp_md *ctx, __u64 at, __u64 digits)
{
	return digits == 1 || !kiln_packet_begins(ctx, at, '0', 1);
}

struct kv_set_request {
	__u64 key_bytes;
	__u64 prefix_bytes; /* "key flags" */
	__u64 seconds;
	__u64 rest_at; /* " bytes\r\n<value>\r\n" */
	__u64 rest_bytes;
	__u64 value_bytes;
};

/* Reads a `set` of a datagram that ends at `end`: 0, or -1 for what user space should look at. */
KILN_FUNCTION int kv_read_set(struct xdp_md *ctx, __u64 end, struct kv_set_request *request)
{
	__u32 digits = 0;
	__u64 at = KV_KEY;
	__s64 number;
	int key;

	key = kiln_packet_token(ctx, at, KV_KEY_MOST);
	if (key <= 0)
		return -1;
	request->key_bytes = key;
	at += key;
	if (!kiln_packet_begins(ctx, at, ' ', 1))
		return -1;
	at++;
	number = kiln_packet_number(ctx, at, &digits);
	if (number < 0 || number >> 32 || !kv_is_plain(ctx, at, digits))
		return -1;
	at += digits;
	request->prefix_bytes = at - KV_KEY;
	if (!kiln_packet_begins(ctx, at, ' ', 1))
		return -1;
	at++;
	number = kiln_packet_number(ctx, at, &digits);
	/* Dates are left to user space, which knows what the wall clock is ahead. */
	if (number < 0 || number > KV_RELATIVE_MOST)
		return -1;
	request->seconds = number;
	at += digits;
	request->rest_at = at;
	if (!kiln_packet_begins(ctx, at, ' ', 1))
		return -1;
	at++;
	number = kiln_packet_number(ctx, at, &digits);
	if (number < 0 || number > KILN_PACKET_MOST || !kv_is_plain(ctx, at, digits))
		return -1;
	request->value_bytes = number;
	at += digits;
	if (!kiln_packet_begins(ctx, at, '\r' | '\n' << 8, 2))
		return -1;
	at += 2 + number;
	if (at + 2 != end || !kiln_packet_begins(ctx, at, '\r' | '\n' << 8, 2))
		return -1;
	request->rest_bytes = end - request->rest_at;
	return 0;
}

/* The headers of a request: 50 bytes, less the two that say nothing. */
struct kv_headers {
	__u64 words[6];
};

static __always_inline int kv_save(struct xdp_md *ctx, struct kv_headers *headers)
{
	void *packet = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (packet + KV_TEXT > end)
		return -1;
	_Pragma("unroll") for (int word = 0; word < 6; word++)
		headers->words[word] = ((__u64 *)packet)[word];
	return 0;
}

/* The packet's length, which clang does not reduce to 32 bits: the verifier subtracts pointers in 64. */
static __always_inline __s64 kv_length(struct xdp_md *ctx)
{
	__s64 bytes = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	asm volatile("" : "+r"(bytes));
	return bytes;
}

/* Makes the packet `bytes` long, by room before it if it has to grow: 0, or -1 and nothing has changed. */
static __always_inline int kv_resize(struct xdp_md *ctx, __s64 bytes)
{
	__s64 more = bytes - kv_length(ctx);

	if (more > 0)
		return bpf_xdp_adjust_head(ctx, -more) && bpf_xdp_adjust_tail(ctx, more) ? -1 : 0;
	return more && bpf_xdp_adjust_tail(ctx, more) ? -1 : 0;
}

/*
 * Words of an answer's IP header, as they are in memory, whatever the request's are: version, header length and type of
 * service 0; time to live 64 and UDP.
 */
#define KV_SERVICE 0x0045ull
#define KV_LIFE 0x1140ull

/* Writes the headers of the answer to a request: addresses and ports exchanged, no UDP checksum. */
static __always_inline int kv_answer(struct xdp_md *ctx, const struct kv_headers *headers, __u64 bytes)
{
	void *packet = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u64 *old = headers->words;
	__u64 *new = packet;
	__u64 total = bpf_htons(bytes - KV_IP), from, to, sum;

	if (packet + KV_TEXT > end)
		return -1;
	new[0] = ((old[0] >> 48 | old[1] << 16) & 0xffffffffffffull) | old[0] << 48;
	new[1] = (old[0] >> 16 & 0xffffffff) | (old[1] & 0xffff00000000ull) | KV_SERVICE << 48;
	new[2] = (old[2] & 0xffffffff0000ull) | total | KV_LIFE << 48;
	/* The header's checksum, for what is another word now (RFC 1624). */
	sum = (~old[3] & 0xffff) + (~old[2] & 0xffff) + total + (~old[1] >> 48) + KV_SERVICE + (~old[2] >> 48) + KV_LIFE;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	from = old[3] >> 16 & 0xffffffff;
	to = old[3] >> 48 | (old[4] & 0xffff) << 16;
	new[3] = (~sum & 0xffff) | to << 16 | from << 48;
	new[4] = (from >> 16) | (old[4] >> 32 & 0xffff) << 16 | (old[4] >> 16 & 0xffff) << 32 |
		 (__u64)bpf_htons(bytes - KV_UDP) << 48;
	new[5] = old[5] & ~0xffffull;
	*(__u16 *)(packet + 48) = 0;
	return 0;
}

/* Makes the packet an answer of `count` bytes of text, at most eight. */
KILN_FUNCTION int kv_short_answer(struct xdp_md *ctx, __u64 text, __u64 count)
{
	struct kv_headers headers;
	void *packet, *end;

	if (kv_save(ctx, &headers) || kv_resize(ctx, KV_TEXT + count) || kv_answer(ctx, &headers, KV_TEXT + count))
		return XDP_PASS;
	packet = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	_Pragma("unroll") for (int at = 0; at < 8; at++) {
		if (at >= count || packet + KV_TEXT + at + 1 > end)
			break;
		*(__u8 *)(packet + KV_TEXT + at) = text >> 8 * at;
	}
	return XDP_TX;
}

/* "END\r\n" */
static __always_inline int kv_missed(struct xdp_md *ctx)
{
	return kv_short_answer(ctx, 0x0a0d444e45ull, 5);
}

/* "STORED\r\n" */
static __always_inline int kv_stored(struct xdp_md *ctx)
{
	return kv_short_answer(ctx, 0x0a0d4445524f5453ull, 8);
}

#endif
