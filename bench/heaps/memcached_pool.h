/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Another peer of apps/kv's extension: the same requests on a pool (KILN_POOL_STORE), keys of eight bytes, no flags and no times. */
#ifndef KV_POOL_H
#define KV_POOL_H

#include <kiln/packet.h>
#include "../../apps/kv/bpf/wire.h"
#if KILN_POOL_STORE == 3
#define KILN_POOL_SHARES_HEAP
#endif
#include <kiln/pool.h>

/* "VALUE key 0 0128\r\n": numbers of one length. */
#define KV_VALUE_AT (KV_TEXT + 23)

#if KILN_POOL_STORE == 3
kiln_heap(KILN_POOL_SUPPLY + (1u << 20));
#else
kiln_heap(1 << 20);
#endif
static KILN_IN_HEAP struct kv_state { __u64 now, port, address, gets, sets; } kv_memory = {
	.now = 1, .port = 0xcb2b, .address = 0x0200000a,
};

static __always_inline struct kv_state *kv_store(void)
{
	return (struct kv_state *)(unsigned long)&kv_memory;
}

KILN_FUNCTION int kv_get(struct xdp_md *ctx, __u64 end)
{
	void *packet = (void *)(long)ctx->data, *after = (void *)(long)ctx->data_end;
	struct kv_headers headers;
	__u64 key;
	int bytes;

	if (packet + KV_KEY + 10 > after || KV_KEY + 10 != end || *(__u16 *)(packet + KV_KEY + 8) != 0x0a0d)
		return XDP_PASS;
	key = *(__u64 *)(packet + KV_KEY);
	/* The largest, and then as long as it is. */
	if (kv_save(ctx, &headers) || kv_resize(ctx, KV_VALUE_AT + KILN_POOL_MAX + 7))
		return XDP_PASS;
	packet = (void *)(long)ctx->data;
	after = (void *)(long)ctx->data_end;
	if (packet + KV_VALUE_AT + KILN_POOL_MAX > after)
		return XDP_PASS;
	bytes = kiln_pool_read(&key, packet + KV_VALUE_AT, after);
	if (bytes == -2) /* ENOENT */
		bytes = 0;
	if (bytes < 0 || bytes > KILN_POOL_MAX || kv_resize(ctx, KV_VALUE_AT + bytes + 7) ||
	    kv_answer(ctx, &headers, KV_VALUE_AT + bytes + 7))
		return XDP_PASS;
	packet = (void *)(long)ctx->data;
	after = (void *)(long)ctx->data_end;
	if (packet + KV_VALUE_AT > after)
		return XDP_PASS;
	*(__u32 *)(packet + KV_TEXT) = 0x554c4156;
	*(__u16 *)(packet + KV_TEXT + 4) = 0x2045;
	*(__u64 *)(packet + KV_TEXT + 6) = key;
	*(__u16 *)(packet + KV_TEXT + 14) = 0x3020; /* " 0" */
	*(__u8 *)(packet + KV_TEXT + 16) = ' ';
	*(__u32 *)(packet + KV_TEXT + 17) = bytes == 128 ? 0x38323130 : bytes == 1024 ? 0x34323031 : 0x30303030;
	*(__u16 *)(packet + KV_TEXT + 21) = 0x0a0d;
	packet += KV_VALUE_AT + kiln_packet_masked(bytes, 2047);
	if (packet + 7 > after)
		return XDP_PASS;
	*(__u16 *)packet = 0x0a0d;
	*(__u32 *)(packet + 2) = 0x0d444e45;
	*(__u8 *)(packet + 6) = '\n';
	kv_store()->gets++;
	return XDP_TX;
}

KILN_FUNCTION int kv_set(struct xdp_md *ctx, __u64 end)
{
	struct kv_set_request request = {};
	void *packet, *after;
	__u64 key;

	if (kv_read_set(ctx, end, &request) || request.key_bytes != 8 || request.value_bytes > KILN_POOL_MAX)
		return XDP_PASS;
	packet = (void *)(long)ctx->data;
	after = (void *)(long)ctx->data_end;
	if (packet + KV_KEY + 8 > after)
		return XDP_PASS;
	key = *(__u64 *)(packet + KV_KEY);
	packet += kiln_packet_masked(request.rest_at + request.rest_bytes - request.value_bytes - 2, KILN_PACKET_MOST);
	if (kiln_pool_write(&key, packet, after, request.value_bytes, 0))
		return XDP_PASS;
	kv_store()->sets++;
	return kv_stored(ctx);
}

#endif
