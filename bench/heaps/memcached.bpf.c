/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * memcached's GET and SET over UDP in test runs: apps/kv's extension, or with -DSLOTS the same server on a BPF hash map whose slots
 * have room for a key of 32 bytes and a value of KV_VALUE bytes, or with KILN_POOL_STORE on a pool. A run writes a request into the
 * packet, with a random key of eight letters, and serves it; `nothing` only writes it. `wire` serves what comes from a network.
 */
#if defined(SLOTS) || defined(KILN_POOL_STORE)
#ifdef SLOTS
#include "memcached_slots.h"
#else
#include "memcached_pool.h"
#endif

static __always_inline int kv_serve(struct xdp_md *ctx)
{
	__u32 command = 0;
	__u64 end = kv_request(ctx, kv_store()->address, kv_store()->port, &command);

	if (!end)
		return XDP_PASS;
	if (command == KV_GET)
		return kv_get(ctx, end);
	return command == KV_SET ? kv_set(ctx, end) : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
#else
#define KV_HEAP_BYTES (64u << 20)
#include "../../apps/kv/bpf/memcached.bpf.c"
#endif

struct bench {
	__u64 random, mask; /* of the keys */
	__u64 bytes; /* of the request */
	__u64 failed;
	__u8 request[2048];
};
static KILN_IN_HEAP struct bench bench_memory __attribute__((aligned(8))) = { .mask = 1 };

static __always_inline struct bench *bench(void)
{
	return (struct bench *)(unsigned long)&bench_memory;
}

/* Keeps the request behind two words, random and mask; gives how many runs have failed. */
SEC("xdp")
int keep(struct xdp_md *ctx)
{
	void *packet = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct bench *own = bench();
	__u64 failed = own->failed;

	if (packet + 16 > end)
		return XDP_ABORTED;
	own->random = ((__u64 *)packet)[0];
	own->mask = ((__u64 *)packet)[1];
	own->failed = 0;
	((__u64 *)packet)[0] = failed;
	own->bytes = end - packet - 16;
	return kiln_packet_take(ctx, 16, own->request, own->bytes) ? XDP_ABORTED : XDP_DROP;
}

static __always_inline int request(struct xdp_md *ctx)
{
	struct bench *own = bench();
	__u64 random = own->random, key;
	void *packet, *end;
	__s64 more;

	/* A longer reply has taken room before the packet, a shorter one has cut its end. */
	more = kv_length(ctx) - (__s64)own->bytes;
	if (more > 0 ? bpf_xdp_adjust_head(ctx, more) : more ? bpf_xdp_adjust_tail(ctx, -more) : 0)
		return -1;
	if (kiln_packet_put(ctx, 0, own->request, own->bytes))
		return -1;
	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	own->random = random;
	key = random >> 20 & own->mask;
	key = (key | key << 16) & 0x0000ffff0000ffffull;
	key = (key | key << 8) & 0x00ff00ff00ff00ffull;
	key = (key | key << 4) & 0x0f0f0f0f0f0f0f0full;
	packet = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (packet + KV_KEY + 8 > end)
		return -1;
	*(__u64 *)(packet + KV_KEY) = key + 0x6161616161616161ull;
	return 0;
}

SEC("xdp")
int nothing(struct xdp_md *ctx)
{
	if (request(ctx))
		bench()->failed++;
	return XDP_DROP;
}

SEC("xdp")
int serve(struct xdp_md *ctx)
{
	if (request(ctx) || kv_serve(ctx) != XDP_TX)
		bench()->failed++;
	return XDP_DROP;
}

SEC("xdp")
int wire(struct xdp_md *ctx)
{
	return kv_serve(ctx);
}
