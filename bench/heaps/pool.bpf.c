/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One operation on a pool per run, for `cargo xtask bench pool`. KILN_POOL_STORE=1, 2 or 3 chooses the store; without it, each
 * object has a slot of 1,024 bytes with a lock.
 */
#ifndef KILN_POOL_OBJECTS
#define KILN_POOL_OBJECTS 65536
#endif
#ifdef KILN_POOL_STORE
#include <kiln/pool.h>
#else
#define KILN_POOL_MAX 1024
#define KILN_POOL_ID __u64
#include <linux/bpf.h>
#include <linux/types.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>
#define KILN_FUNCTION static __attribute__((noinline, unused))
#include <kiln/pool/copy.h>

struct slot {
	struct bpf_spin_lock lock;
	__u32 bytes;
	__u64 words[KILN_POOL_MAX / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct slot);
	__uint(max_entries, KILN_POOL_OBJECTS);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct slot_contents { __u64 words[KILN_POOL_MAX / 8 + 1]; });
	__uint(max_entries, 1);
} empty SEC(".maps");

/* The slot of an id, made if need be. */
static __always_inline struct slot *slot_of(const __u64 *id, int make)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, id);
	__u32 zero = 0;
	void *contents;

	if (slot || !make)
		return slot;
	contents = bpf_map_lookup_elem(&empty, &zero);
	if (!contents)
		return 0;
	bpf_map_update_elem(&slots, id, contents, BPF_NOEXIST);
	return bpf_map_lookup_elem(&slots, id);
}

/* `bytes` is a multiple of 128: what is measured has 128 or 1,024. */
KILN_FUNCTION int kiln_pool_write(const __u64 *id, const void *from, const void *end, __u32 bytes, __u64 flags)
{
	__u32 chunks = bytes / KILN_POOL_CHUNK;
	struct slot *slot = slot_of(id, 1);

	if (!slot || from + bytes > end)
		return -ENOSPC;
	bpf_spin_lock(&slot->lock);
	slot->bytes = bytes;
	for (__u32 at = 0; at < KILN_POOL_LIST; at++) {
		if (at >= chunks)
			break;
		if (!kiln_pool_copy_chunk((void *)slot->words + at * KILN_POOL_CHUNK, from + at * KILN_POOL_CHUNK,
					  from + at * KILN_POOL_CHUNK, end))
			break;
	}
	bpf_spin_unlock(&slot->lock);
	return 0;
}

KILN_FUNCTION int kiln_pool_read(const __u64 *id, void *to, const void *end)
{
	struct slot *slot = slot_of(id, 0);
	__u32 bytes;

	if (!slot)
		return -ENOENT;
	bpf_spin_lock(&slot->lock);
	bytes = slot->bytes;
	for (__u32 at = 0; at < KILN_POOL_LIST; at++) {
		if (at >= bytes / KILN_POOL_CHUNK)
			break;
		if (!kiln_pool_copy_chunk(to + at * KILN_POOL_CHUNK, (void *)slot->words + at * KILN_POOL_CHUNK,
					  to + at * KILN_POOL_CHUNK, end))
			break;
	}
	bpf_spin_unlock(&slot->lock);
	return bytes;
}
#endif

struct request {
	__u64 random; /* chooses the id; changes with each run */
	__u64 next; /* the next id to fill */
	__u32 mask; /* ids - 1 */
	__u32 bytes; /* of an object; 0: three of four have 128, the others 1,024 */
	__u64 failed, found;
	__u64 contents[128];
};

static __always_inline __u64 next(__u64 random)
{
	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	return random;
}

SEC("xdp")
int fill(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct request *request = data;
	__u32 bytes;
	__u64 id;

	if ((void *)(request + 1) > end)
		return XDP_ABORTED;
	id = request->next++;
	request->contents[0] = id;
	bytes = request->bytes ? request->bytes : id & 3 ? 128 : 1024;
	if (kiln_pool_write(&id, request->contents, end, bytes, 0))
		request->failed++;
	return XDP_DROP;
}

SEC("xdp")
int set(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct request *request = data;
	__u64 id;

	if ((void *)(request + 1) > end)
		return XDP_ABORTED;
	request->random = next(request->random);
	id = request->random >> 20 & request->mask;
	request->contents[0] = id;
	if (kiln_pool_write(&id, request->contents, end, request->bytes, 0))
		request->failed++;
	return XDP_DROP;
}

SEC("xdp")
int get(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct request *request = data;
	__u64 id;

	if ((void *)(request + 1) > end)
		return XDP_ABORTED;
	request->random = next(request->random);
	id = request->random >> 20 & request->mask;
	if (kiln_pool_read(&id, request->contents, end) == request->bytes && request->contents[0] == id)
		request->found++;
	else
		request->failed++;
	return XDP_DROP;
}

/* What a run costs without any pool. */
SEC("xdp")
int nothing(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct request *request = data;

	if ((void *)(request + 1) > end)
		return XDP_ABORTED;
	request->random = next(request->random);
	request->found += request->random >> 20 & request->mask;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
