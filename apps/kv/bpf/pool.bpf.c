/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * memcached's `get` of one key, `set` and `delete` over UDP, at XDP, on a pool's array store: for kernels without arenas (Linux 5.15 to
 * 6.8). User space has no store of its own: it gives this program requests of its sockets in test runs.
 *
 *	key, filled up with zeros -> object: "flags bytes\r\n<value>\r\n", what a reply to `get` says after the key
 *
 * What is not served is passed on: other commands, several keys, longer keys and values, times, `noreply`.
 */
#define KV_ID_WORDS 8
struct kv_id {
	unsigned long long words[KV_ID_WORDS];
};

#define KILN_POOL_STORE KILN_POOL_ARRAY
#define KILN_POOL_ID struct kv_id
#define KILN_POOL_MAX 1024
#include "wire.h"
#include <kiln/pool.h>

#define KV_DELETE 0x656c6564u /* "dele" */
/* Digits of flags. */
#define KV_FLAGS_MOST 10
#define KV_CPUS 64

struct kv_counters {
	__u64 gets, hits, sets, passed, deletes, reserved[3];
};
/* What user space writes and reads. */
struct kv_pool_state {
	__u64 port; /* UDP, in network order; 0: programs pass everything */
	__u64 address; /* of IPv4, in network order */
	__u64 reserved[6];
	struct kv_counters cpu[KV_CPUS];
};
struct kv_pool_state kv_pool;

static __always_inline struct kv_counters *kv_count(void)
{
	return &kv_pool.cpu[bpf_get_smp_processor_id() & (KV_CPUS - 1)];
}

static __always_inline int kv_pass(void)
{
	kv_count()->passed++;
	return XDP_PASS;
}

/* Writes a key of the packet over an id of zeros: 0, or -1 if it is too long. */
KILN_PACKET_FUNCTION int kv_read_id(struct xdp_md *ctx, __u64 at, __u64 bytes, struct kv_id *id)
{
	void *packet = (void *)(long)ctx->data + kiln_packet_masked(at, KILN_PACKET_MOST), *end = (void *)(long)ctx->data_end;

	if (!id || bytes > sizeof(*id))
		return -1;
	/* Without branches on `bytes`, of which the verifier would follow all combinations with where the packet ends. */
	_Pragma("clang loop unroll(disable)") for (__u64 byte = 0; byte < sizeof(*id); byte++) {
		__u8 *place = packet + byte;

		if ((void *)(place + 1) > end)
			break;
		((__u8 *)id)[byte] = *place * kiln_pool_below(byte, bytes);
	}
	return 0;
}

/* Makes the packet an answer to the request with these headers. */
static __always_inline int kv_say(struct xdp_md *ctx, const struct kv_headers *headers, const char *text, __u64 bytes)
{
	void *packet, *end;

	if (kv_resize(ctx, KV_TEXT + bytes) || kv_answer(ctx, headers, KV_TEXT + bytes))
		return XDP_DROP;
	packet = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (packet + KV_TEXT + bytes > end)
		return XDP_DROP;
	_Pragma("unroll") for (__u64 at = 0; at < bytes; at++)
		((char *)packet)[KV_TEXT + at] = text[at];
	return XDP_TX;
}
#define KV_SAY(headers, text) kv_say(ctx, headers, text, sizeof(text) - 1)

/* The bytes of an object; -1 if there is none. It may have others when it is read. */
static __always_inline int kv_bytes(const struct kv_id *id)
{
	struct kiln_pool_handle *handle = bpf_map_lookup_elem(&kiln_pool_objects, id);

	return handle ? KILN_POOL_ONCE(handle->bytes) & KILN_POOL_SIZES : -1;
}

/*
 * The pool's functions as global ones, which the kernel verifies once. Older kernels take a key that they look up from the frame, so the id
 * is copied.
 */
KILN_PACKET_FUNCTION int kv_read(struct xdp_md *ctx, __u64 at, const struct kv_id *id)
{
	struct kv_id own;

	if (!id)
		return -ENOENT;
	own = *id;
	return kiln_pool_read(&own, (void *)(long)ctx->data + kiln_packet_masked(at, 255), (void *)(long)ctx->data_end);
}

KILN_PACKET_FUNCTION int kv_write(struct xdp_md *ctx, __u64 at, __u64 bytes, const struct kv_id *id)
{
	struct kv_id own;

	if (!id)
		return -ENOENT;
	own = *id;
	return kiln_pool_write(&own, (void *)(long)ctx->data + kiln_packet_masked(at, 255), (void *)(long)ctx->data_end, bytes, 0);
}

KILN_PACKET_FUNCTION int kv_free(const struct kv_id *id)
{
	struct kv_id own;

	if (!id)
		return -ENOENT;
	own = *id;
	return kiln_pool_free(&own);
}

KILN_FUNCTION int kv_get(struct xdp_md *ctx, __u64 end)
{
	int key_bytes = kiln_packet_token(ctx, KV_KEY, sizeof(struct kv_id)), bytes;
	struct kv_counters *count = kv_count();
	struct kv_headers headers;
	void *packet, *after;
	struct kv_id id = {};
	__u64 at;

	if (key_bytes <= 0 || KV_KEY + key_bytes + 2 != end ||
	    !kiln_packet_begins(ctx, KV_KEY + key_bytes, '\r' | '\n' << 8, 2) || kv_read_id(ctx, KV_KEY, key_bytes, &id))
		return kv_pass();
	bytes = kv_bytes(&id);
	/* "VALUE key " */
	at = KV_TEXT + 6 + key_bytes + 1;
	if (kv_save(ctx, &headers) || (bytes >= 0 && kv_resize(ctx, at + bytes + 5)))
		return kv_pass();
	count->gets++;
	if (bytes < 0)
		return KV_SAY(&headers, "END\r\n");
	packet = (void *)(long)ctx->data;
	after = (void *)(long)ctx->data_end;
	/* The zeros behind a shorter key are written over. */
	_Pragma("unroll") for (int word = 0; word < KV_ID_WORDS; word++) {
		if (packet + KV_TEXT + 6 + 8 * word + 8 > after)
			break;
		*(__u64 *)(packet + KV_TEXT + 6 + 8 * word) = id.words[word];
	}
	packet += kiln_packet_masked(at - 1, 255);
	if (packet + 1 > after)
		return XDP_DROP;
	*(__u8 *)packet = ' ';
	bytes = kv_read(ctx, at, &id);
	if (bytes == -ENOENT)
		return KV_SAY(&headers, "END\r\n");
	at += kiln_packet_masked(bytes, KILN_POOL_SIZES);
	/* Others changed it meanwhile, again and again. */
	if (bytes < 0 || kv_resize(ctx, at + 5) || kv_answer(ctx, &headers, at + 5))
		return XDP_DROP;
	packet = (void *)(long)ctx->data;
	after = (void *)(long)ctx->data_end;
	if (packet + KV_TEXT + 6 > after)
		return XDP_DROP;
	*(__u32 *)(packet + KV_TEXT) = 0x554c4156; /* "VALU" */
	*(__u16 *)(packet + KV_TEXT + 4) = 0x2045; /* "E " */
	packet += kiln_packet_masked(at, KILN_PACKET_MOST);
	if (packet + 5 > after)
		return XDP_DROP;
	*(__u32 *)packet = 0x0d444e45; /* "END\r" */
	*(__u8 *)(packet + 4) = '\n';
	count->hits++;
	return XDP_TX;
}

/* Moves what is before a place by two bytes to the right, over " 0": 0, or -1 if it is too long. */
KILN_PACKET_FUNCTION int kv_move(struct xdp_md *ctx, __u64 end_at, __u64 bytes)
{
	__u8 *packet = (void *)(long)ctx->data + kiln_packet_masked(end_at - KV_FLAGS_MOST - 2, KILN_PACKET_MOST);

	if ((void *)(packet + KV_FLAGS_MOST + 2) > (void *)(long)ctx->data_end || bytes > KV_FLAGS_MOST)
		return -1;
	for (__u64 byte = 0; byte < KV_FLAGS_MOST; byte++)
		if (byte < bytes)
			packet[KV_FLAGS_MOST + 1 - byte] = packet[KV_FLAGS_MOST - 1 - byte];
	return 0;
}

KILN_FUNCTION int kv_set(struct xdp_md *ctx, __u64 end)
{
	struct kv_set_request request = {};
	struct kv_headers headers;
	__u64 bytes, flags;
	struct kv_id id = {};
	int result;

	if (kv_read_set(ctx, end, &request) || request.seconds ||
	    request.rest_at != KV_KEY + request.prefix_bytes + 2 || kv_read_id(ctx, KV_KEY, request.key_bytes, &id))
		return kv_pass();
	flags = request.prefix_bytes - request.key_bytes - 1;
	bytes = flags + request.rest_bytes;
	if (bytes > KILN_POOL_MAX || kv_save(ctx, &headers) || kv_move(ctx, request.rest_at, flags))
		return kv_pass();
	result = kv_write(ctx, request.rest_at - flags, bytes, &id);
	if (result == -ENOMEM)
		return KV_SAY(&headers, "SERVER_ERROR out of memory storing object\r\n");
	if (result)
		return XDP_DROP;
	kv_count()->sets++;
	return KV_SAY(&headers, "STORED\r\n");
}

KILN_FUNCTION int kv_delete(struct xdp_md *ctx, __u64 end)
{
	int key_bytes = kiln_packet_token(ctx, KV_TEXT + 7, sizeof(struct kv_id));
	struct kv_headers headers;
	struct kv_id id = {};

	if (!kiln_packet_begins(ctx, KV_TEXT + 4, 0x206574, 3) || key_bytes <= 0 || KV_TEXT + 7 + key_bytes + 2 != end ||
	    !kiln_packet_begins(ctx, KV_TEXT + 7 + key_bytes, '\r' | '\n' << 8, 2) ||
	    kv_read_id(ctx, KV_TEXT + 7, key_bytes, &id) || kv_save(ctx, &headers))
		return kv_pass();
	kv_count()->deletes++;
	return kv_free(&id) ? KV_SAY(&headers, "NOT_FOUND\r\n") : KV_SAY(&headers, "DELETED\r\n");
}

SEC("xdp")
int kv_memcached(struct xdp_md *ctx)
{
	__u32 command = 0;
	__u64 end = kv_pool.port ? kv_request(ctx, kv_pool.address, kv_pool.port, &command) : 0;

	if (!end)
		return XDP_PASS;
	if (command == KV_GET)
		return kv_get(ctx, end);
	if (command == KV_SET)
		return kv_set(ctx, end);
	return command == KV_DELETE ? kv_delete(ctx, end) : kv_pass();
}

char LICENSE[] SEC("license") = "GPL";
