/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * memcached's `get` of one key and `set` over UDP, at XDP, on the store that it shares with user space. What else comes to the port
 * goes on to the server's socket: other commands, values that do not fit, a lock that is taken, a heap that is full.
 */
#ifndef KV_HEAP_BYTES
#define KV_HEAP_BYTES (256u << 20)
#endif
#include "store.h"
#include "wire.h"

/* Leaves a request to user space. */
static __always_inline int kv_pass(void)
{
	kv_count()->passed++;
	return XDP_PASS;
}

/* Makes the packet the reply with an item: 0, or -1 if it has no room. */
KILN_FUNCTION int kv_reply(struct xdp_md *ctx, struct kv_item *item)
{
	__u64 text_bytes = item->text_bytes, bytes = KV_TEXT + 6 + text_bytes + 5;
	struct kv_headers headers;
	void *packet, *end;

	if (text_bytes > KILN_PACKET_MOST - KV_TEXT - 11 || kv_save(ctx, &headers) || kv_resize(ctx, bytes))
		return -1;
	if (kv_answer(ctx, &headers, bytes) || kiln_packet_put(ctx, KV_TEXT + 6, item->text, text_bytes))
		return -1;
	packet = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (packet + KV_TEXT + 6 > end)
		return -1;
	*(__u32 *)(packet + KV_TEXT) = 0x554c4156; /* "VALU" */
	*(__u16 *)(packet + KV_TEXT + 4) = 0x2045; /* "E " */
	packet += KV_TEXT + 6 + kiln_packet_masked(text_bytes, KILN_PACKET_MOST);
	if (packet + 5 > end)
		return -1;
	*(__u32 *)packet = 0x0d444e45; /* "END\r" */
	*(__u8 *)(packet + 4) = '\n';
	return 0;
}

KILN_FUNCTION int kv_get(struct xdp_md *ctx, __u64 end)
{
	struct kv_counters *count = kv_count();
	int key_bytes = kiln_packet_token(ctx, KV_KEY, KV_KEY_MOST), result;
	struct kv_bucket *bucket;
	struct kv_item *item;
	__u64 hash, *link;

	if (key_bytes <= 0 || KV_KEY + key_bytes + 2 != end ||
	    !kiln_packet_begins(ctx, KV_KEY + key_bytes, '\r' | '\n' << 8, 2))
		return kv_pass();
	hash = kiln_packet_hash(ctx, KV_KEY, key_bytes, kv_store()->seed);
	bucket = kv_bucket(hash);
	if (!kv_try_lock(bucket))
		return kv_pass();
	link = kv_find(ctx, bucket, hash, KV_KEY, key_bytes);
	item = link ? kv_item(*link) : 0;
	if (item && kv_expired(item))
		item = 0;
	result = 0;
	if (item) {
		/* Only what changes: to write a line of memory is to write it back. */
		if (!item->used)
			item->used = 1;
		if (kv_is_object(item)) {
			result = -1;
		} else {
			if (!(item->value_bytes & KV_FETCHED))
				item->value_bytes |= KV_FETCHED;
			result = kv_reply(ctx, item);
		}
	}
	kiln_spin_unlock(&bucket->lock);
	if (!link || result)
		return kv_pass();
	count->gets++;
	if (!item)
		return kv_missed(ctx);
	count->hits++;
	return XDP_TX;
}

/* Makes an item with room for it what the request says. */
static __always_inline void kv_write(struct xdp_md *ctx, const struct kv_set_request *request, struct kv_item *item)
{
	__u64 time = request->seconds * 1000;

	item->expires = time ? kv_store()->now + time : 0;
	item->key_bytes = request->key_bytes;
	item->text_bytes = request->prefix_bytes + request->rest_bytes;
	item->value_bytes = request->value_bytes;
	item->used = 1;
	kiln_packet_take(ctx, KV_KEY, item->text, request->prefix_bytes);
	kiln_packet_take(ctx, request->rest_at, item->text + request->prefix_bytes, request->rest_bytes);
}

/* Writes a value over the key's old one, if that has the same size: whether it did. It allocates nothing. */
KILN_FUNCTION int kv_overwrite(struct xdp_md *ctx, const struct kv_set_request *request, __u64 hash)
{
	struct kv_bucket *bucket = kv_bucket(hash);
	struct kv_item *item;
	__u64 *link;
	int done = 0;

	if (!kv_try_lock(bucket))
		return 0;
	link = kv_find(ctx, bucket, hash, KV_KEY, request->key_bytes);
	item = link ? kv_item(*link) : 0;
	if (item && !kv_is_object(item) && item->text_bytes == request->prefix_bytes + request->rest_bytes) {
		item->cas = ++bucket->version;
		kv_write(ctx, request, item);
		done = 1;
	}
	kiln_spin_unlock(&bucket->lock);
	return done;
}

/* An item as the request says; NULL if there is no memory for it. */
KILN_FUNCTION struct kv_item *kv_fill(struct xdp_md *ctx, const struct kv_set_request *request)
{
	__u64 bytes = sizeof(struct kv_item) + request->prefix_bytes + request->rest_bytes;
	struct kv_item *item;

	if (kv_store()->bytes + bytes > kv_store()->most_bytes)
		return 0;
	item = kiln_malloc(bytes);
	if (item)
		kv_write(ctx, request, item);
	return item;
}

/* Puts an item into its bucket. The item to free is in `spare`: the one that it replaces, or itself. Returns whether it is in. */
KILN_FUNCTION int kv_link(struct xdp_md *ctx, struct kv_item *item, __u64 *spare)
{
	struct kv_bucket *bucket = kv_bucket(item->hash);
	struct kv_item *old = 0;
	__u64 *link;

	*spare = (__u64)(unsigned long)item;
	if (!kv_try_lock(bucket))
		return 0;
	link = kv_find(ctx, bucket, item->hash, KV_KEY, item->key_bytes);
	/* User space has more to free than an object's item. */
	if (link && *link && kv_is_object(kv_item(*link)))
		link = 0;
	if (link) {
		old = kv_item(*link);
		item->cas = ++bucket->version;
		item->next = old ? old->next : 0;
		*link = (__u64)(unsigned long)item;
		*spare = (__u64)(unsigned long)old;
	}
	kiln_spin_unlock(&bucket->lock);
	return !!link;
}

KILN_FUNCTION int kv_set(struct xdp_md *ctx, __u64 end)
{
	struct kv_state *store = kv_store();
	struct kv_set_request request = {};
	struct kv_item *item, *spare;
	__u64 old = 0, bytes, hash;
	int linked;

	if (kv_read_set(ctx, end, &request))
		return kv_pass();
	hash = kiln_packet_hash(ctx, KV_KEY, request.key_bytes, store->seed);
	if (kv_overwrite(ctx, &request, hash)) {
		kv_count()->sets++;
		return kv_stored(ctx);
	}
	item = kv_fill(ctx, &request);
	if (!item)
		return kv_pass();
	item->hash = hash;
	bytes = sizeof(*item) + item->text_bytes;
	linked = kv_link(ctx, item, &old);
	spare = kv_item(old);
	if (linked) {
		if (spare)
			bytes -= sizeof(*item) + spare->text_bytes;
		else
			__sync_fetch_and_add(&store->items, 1);
		__sync_fetch_and_add(&store->bytes, bytes);
	}
	if (spare)
		kiln_free(spare);
	if (!linked)
		return kv_pass();
	kv_count()->sets++;
	return kv_stored(ctx);
}

static __always_inline int kv_serve(struct xdp_md *ctx)
{
	__u32 command = 0;
	__u64 end = kv_store()->buckets ? kv_request(ctx, kv_store()->address, kv_store()->port, &command) : 0;

	if (!end)
		return XDP_PASS;
	if (command == KV_GET)
		return kv_get(ctx, end);
	if (command == KV_SET)
		return kv_set(ctx, end);
	return kv_pass();
}

SEC("xdp")
int kv_memcached(struct xdp_md *ctx)
{
	return kv_serve(ctx);
}

char LICENSE[] SEC("license") = "GPL";
