/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operations on a pool, each asked for in a packet, and two racers; -DKILN_POOL_STORE=1, 2 or 3 chooses the store. For
 * crates/transform/sandbox/tests/heaps/pool.rs.
 */
struct key {
	unsigned long long words[2];
};
#define KILN_POOL_ID struct key
#ifndef KILN_POOL_OBJECTS
#define KILN_POOL_OBJECTS 64
#endif
#ifndef KILN_POOL_BYTES
#define KILN_POOL_BYTES 24576
#endif
#include <kiln/pool.h>

enum { ALLOC, FREE, RESIZE, READ, WRITE };

struct order {
	__u32 operation, bytes;
	__u64 id, flags;
	__s64 result;
	__u8 contents[];
};

SEC("xdp")
int pool(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct order *order = data;
	struct key key = {};
	int result;

	if ((void *)(order + 1) > end)
		return XDP_ABORTED;
	key.words[0] = order->id;
	key.words[1] = ~order->id;
	switch (order->operation) {
	case ALLOC:
		result = kiln_pool_alloc(&key, order->bytes);
		break;
	case FREE:
		result = kiln_pool_free(&key);
		break;
	case RESIZE:
		result = kiln_pool_resize(&key, order->bytes);
		break;
	case READ:
		result = kiln_pool_read(&key, order->contents, end);
		break;
	default:
		result = kiln_pool_write(&key, order->contents, end, order->bytes, order->flags);
		break;
	}
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	order = data;
	if ((void *)(order + 1) > end)
		return XDP_ABORTED;
	order->result = result;
	return XDP_DROP;
}

/* What racers count. */
struct race {
	__u64 count, seed; /* asked for: how many operations, on which objects */
	__u64 reads, writes, torn, failed, missing;
	__u64 reserved;
	__u64 contents[128];
};

#define RACED 4 /* objects: few, so that reads and writes meet */

static __always_inline __u64 next(__u64 random)
{
	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	return random;
}

/* Whether the first words, up to all of them, are not all the same. */
KILN_FUNCTION int differ(struct race *race, void *end, __u32 words)
{
	__u64 different = 0;

	if ((void *)(race + 1) > end)
		return 1;
	for (__u32 word = 1; word < 128 && word < words; word++)
		different |= race->contents[word] ^ race->contents[0];
	return !!different;
}

/* Writes or frees an object; all words of an object are the same. One operation a run: the packet is asked again. */
SEC("xdp")
int writer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct race *race = data;
	struct key key = {};
	__u64 random;
	int result;

	if ((void *)(race + 1) > end)
		return XDP_ABORTED;
	race->seed = random = next(race->seed);
	race->writes++;
	key.words[0] = random >> 20 & (RACED - 1);
	if ((random >> 40 & 15) == 0) {
		result = kiln_pool_free(&key);
	} else {
		for (__u32 word = 0; word < 128; word++)
			race->contents[word] = random;
		result = kiln_pool_write(&key, race->contents, end, random >> 44 & 1 ? 1024 : 136, BPF_ANY);
	}
	if (result && result != -ENOENT)
		race->failed++;
	return XDP_DROP;
}

SEC("xdp")
int reader(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct race *race = data;
	struct key key = {};
	int result;

	if ((void *)(race + 1) > end)
		return XDP_ABORTED;
	race->seed = next(race->seed);
	race->reads++;
	key.words[0] = race->seed >> 20 & (RACED - 1);
	result = kiln_pool_read(&key, race->contents, end);
	if (result == 1024 || result == 136)
		race->torn += differ(race, end, (__u32)result / 8);
	else if (result == -ENOENT)
		race->missing++;
	else
		race->failed++;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
