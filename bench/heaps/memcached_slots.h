/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The peer of apps/kv's extension: the same requests, on a BPF hash map with fixed slots, values of 128 and KV_VALUE bytes only. */
#ifndef KV_SLOTS_H
#define KV_SLOTS_H

#include <kiln/packet.h>
#include "../../apps/kv/bpf/wire.h"

#ifndef KV_VALUE
#define KV_VALUE 128
#endif
#define KV_PREFIX 64

struct kv_key {
	__u64 words[4];
};

struct kv_slot {
	struct bpf_spin_lock lock;
	__u32 prefix_bytes; /* "key flags 128\r\n" */
	__u64 value_bytes;
	__u64 expires;
	__u64 prefix[KV_PREFIX / 8];
	__u64 value[KV_VALUE / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct kv_key);
	__type(value, struct kv_slot);
	__uint(max_entries, 65536);
} kv_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct kv_empty { __u64 words[sizeof(struct kv_slot) / 8]; });
	__uint(max_entries, 1);
} kv_empty_slot SEC(".maps");

kiln_heap(1 << 20);
/* What programs count and compare, as apps/kv has it. */
static KILN_IN_HEAP struct kv_state { __u64 now, port, address, gets, sets; } kv_memory = {
	.now = 1, .port = 0xcb2b, .address = 0x0200000a,
};

static __always_inline struct kv_state *kv_store(void)
{
	return (struct kv_state *)(unsigned long)&kv_memory;
}

static __always_inline int kv_load_key(struct xdp_md *ctx, struct kv_key *key, __u64 bytes)
{
	if (bytes < 1 || bytes > sizeof(*key))
		return -1;
	return bpf_xdp_load_bytes(ctx, KV_KEY, key, bytes);
}

KILN_FUNCTION int kv_get(struct xdp_md *ctx, __u64 end)
{
	int key_bytes = kiln_packet_token(ctx, KV_KEY, KV_KEY_MOST);
	struct kv_headers headers;
	struct kv_key key = {};
	struct kv_slot *slot;
	__u64 prefix_bytes, value_bytes;
	void *packet, *after;

	if (key_bytes <= 0 || KV_KEY + key_bytes + 2 != end ||
	    !kiln_packet_begins(ctx, KV_KEY + key_bytes, '\r' | '\n' << 8, 2) || kv_load_key(ctx, &key, key_bytes))
		return XDP_PASS;
	slot = bpf_map_lookup_elem(&kv_slots, &key);
	if (!slot || (slot->expires && slot->expires <= kv_store()->now))
		return kv_missed(ctx);
	prefix_bytes = slot->prefix_bytes;
	value_bytes = slot->value_bytes;
	if (prefix_bytes > KV_PREFIX || value_bytes > KV_VALUE)
		return XDP_PASS;
	end = KV_TEXT + 6 + prefix_bytes + value_bytes + 7;
	if (kv_save(ctx, &headers) || kv_resize(ctx, end) || kv_answer(ctx, &headers, end))
		return XDP_PASS;
	packet = (void *)(long)ctx->data;
	after = (void *)(long)ctx->data_end;
	if (packet + KV_TEXT + 6 + KV_PREFIX > after)
		return XDP_PASS;
	*(__u32 *)(packet + KV_TEXT) = 0x554c4156;
	*(__u16 *)(packet + KV_TEXT + 4) = 0x2045;
	packet += KV_TEXT + 6;
	bpf_spin_lock(&slot->lock);
	__builtin_memcpy(packet, slot->prefix, KV_PREFIX);
	packet += kiln_packet_masked(prefix_bytes, 127);
	if (value_bytes == 128 && packet + 128 + 7 <= after) {
		__builtin_memcpy(packet, slot->value, 128);
		packet += 128;
	} else if (KV_VALUE != 128 && value_bytes == KV_VALUE && packet + KV_VALUE + 7 <= after) {
		__builtin_memcpy(packet, slot->value, KV_VALUE);
		packet += KV_VALUE;
	} else {
		bpf_spin_unlock(&slot->lock);
		return XDP_PASS;
	}
	bpf_spin_unlock(&slot->lock);
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
	struct kv_key key = {};
	struct kv_slot *slot;
	__u64 prefix_bytes;
	void *packet, *after, *value;

	if (kv_read_set(ctx, end, &request) || kv_load_key(ctx, &key, request.key_bytes))
		return XDP_PASS;
	prefix_bytes = request.prefix_bytes + request.rest_bytes - request.value_bytes - 2;
	slot = bpf_map_lookup_elem(&kv_slots, &key);
	if (!slot) {
		__u32 zero = 0;
		void *empty = bpf_map_lookup_elem(&kv_empty_slot, &zero);

		if (!empty)
			return XDP_PASS;
		bpf_map_update_elem(&kv_slots, &key, empty, BPF_NOEXIST);
		slot = bpf_map_lookup_elem(&kv_slots, &key);
		if (!slot)
			return XDP_PASS;
	}
	packet = (void *)(long)ctx->data + KV_KEY;
	after = (void *)(long)ctx->data_end;
	value = packet + kiln_packet_masked(prefix_bytes, KILN_PACKET_MOST);
	if (prefix_bytes > KV_PREFIX || packet + KV_PREFIX > after)
		return XDP_PASS;
	bpf_spin_lock(&slot->lock);
	if (request.value_bytes == 128 && value + 128 <= after) {
		__builtin_memcpy(slot->value, value, 128);
	} else if (KV_VALUE != 128 && request.value_bytes == KV_VALUE && value + KV_VALUE <= after) {
		__builtin_memcpy(slot->value, value, KV_VALUE);
	} else {
		bpf_spin_unlock(&slot->lock);
		return XDP_PASS;
	}
	slot->value_bytes = request.value_bytes;
	slot->prefix_bytes = prefix_bytes;
	slot->expires = request.seconds && request.seconds <= KV_RELATIVE_MOST ? kv_store()->now + request.seconds : request.seconds;
	__builtin_memcpy(slot->prefix, packet, KV_PREFIX);
	bpf_spin_unlock(&slot->lock);
	kv_store()->sets++;
	return kv_stored(ctx);
}

#endif
