/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects in blocks of maps, for KILN_POOL_HASH and KILN_POOL_ARRAY. Included by kiln/pool.h.
 *
 *	kiln_pool_objects: id -> handle { version, state, bytes, blocks }       a hash map
 *	kiln_pool_blocks:  block -> 128 bytes                                   pool/hash.h or pool/array.h
 *
 * A block that an object has is never changed, but for zeros behind the object's end: a write fills blocks of its own and
 * puts them into the handle. A reader notes the handle's version, copies, and looks at the version again. While a handle
 * changes, its version is 0; afterwards it is a number that no other contents of any object had.
 *
 * The kernel may give the memory of a deleted handle to another id while somebody still holds its address. So a handle says
 * which id it is for, and everybody checks that under its lock, or between two looks at its version. A handle comes into
 * the map as NEW and without contents; only under its lock does it become LIVE, and DYING before it is deleted.
 */
#ifndef KILN_POOL_MAPS_H
#define KILN_POOL_MAPS_H

/* The bits of an object's number of blocks, the largest of which is a power of two. */
#define KILN_POOL_LENGTHS (2 * KILN_POOL_LIST - 1)
/* Blocks in all. */
#define KILN_POOL_COUNT (KILN_POOL_BYTES / KILN_POOL_CHUNK)

enum { KILN_POOL_NEW, KILN_POOL_LIVE, KILN_POOL_DYING };

struct kiln_pool_block {
	__u64 words[KILN_POOL_CHUNK / 8];
};

#if KILN_POOL_STORE == KILN_POOL_HASH
typedef __u64 kiln_pool_number;
#else
typedef __u32 kiln_pool_number;
#endif

/* The numbers of an object's blocks, in order, and then zeros: 0 is no block's number. */
struct kiln_pool_list {
	kiln_pool_number block[KILN_POOL_LIST];
};

struct kiln_pool_handle {
	struct bpf_spin_lock lock;
	__u32 bytes;
	__u64 version;
	__u64 state;
	KILN_POOL_ID id;
	struct kiln_pool_list list;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, KILN_POOL_ID);
	__type(value, struct kiln_pool_handle);
	__uint(max_entries, KILN_POOL_OBJECTS);
} kiln_pool_objects SEC(".maps");

static __always_inline __u32 kiln_pool_blocks_of(__u32 bytes)
{
	return (bytes + KILN_POOL_CHUNK - 1) / KILN_POOL_CHUNK;
}

/* Zeros from a byte of a block to its end. */
static __always_inline void kiln_pool_clear_from(struct kiln_pool_block *block, __u32 from)
{
#pragma unroll
	for (__u32 word = 0; word < KILN_POOL_CHUNK / 8; word++) {
		if (word * 8 >= from)
			block->words[word] = 0;
		else if (word * 8 + 8 > from)
			block->words[word] &= (1ull << 8 * (from % 8)) - 1;
	}
}

KILN_FUNCTION int kiln_pool_give(const struct kiln_pool_list *list);

#if KILN_POOL_STORE == KILN_POOL_HASH
#include <kiln/pool/hash.h>
#else
#include <kiln/pool/array.h>
#endif

/* Gives back all blocks of a list. */
KILN_FUNCTION int kiln_pool_give(const struct kiln_pool_list *list)
{
	for (__u32 at = 0; at < KILN_POOL_LIST; at++) {
		kiln_pool_number number = kiln_pool_apart(list->block[at]);

		if (number)
			kiln_pool_give_block(number);
	}
	return 0;
}

/* Fills new blocks, with zeros after the buffer's bytes. 0, or a negative errno. */
KILN_FUNCTION int kiln_pool_fill(const struct kiln_pool_list *list, const void *from, const void *end, __u32 bytes)
{
	__u32 whole = bytes / KILN_POOL_CHUNK, last = kiln_pool_bits(bytes, KILN_POOL_SIZES) / KILN_POOL_CHUNK;
	__u32 rest = kiln_pool_bits(bytes, KILN_POOL_CHUNK - 1);

	for (__u32 index = 0; index < KILN_POOL_LIST; index++) {
		if (index >= whole)
			break;
		if (kiln_pool_fill_block(list->block[index], from + index * KILN_POOL_CHUNK, end))
			return -ENOMEM;
	}
	if (!rest || last >= KILN_POOL_LIST)
		return 0;
	return kiln_pool_fill_rest(list->block[last], from + last * KILN_POOL_CHUNK, end, rest) ? -ENOMEM : 0;
}

/* Fills all blocks of a list with zeros. */
KILN_FUNCTION int kiln_pool_clear(const struct kiln_pool_list *list)
{
	for (__u32 at = 0; at < KILN_POOL_LIST; at++) {
		kiln_pool_number number = kiln_pool_apart(list->block[at]);

		if (number && kiln_pool_clear_block(number))
			return -ENOMEM;
	}
	return 0;
}

/* Brings a handle without contents into the map. 0 too when there is one already. */
KILN_FUNCTION int kiln_pool_insert(const KILN_POOL_ID *id)
{
	struct kiln_pool_handle handle = { .id = *id };
	long result = bpf_map_update_elem(&kiln_pool_objects, id, &handle, BPF_NOEXIST);

	return result && result != -EEXIST ? -ENOMEM : 0;
}

/* Makes `list`, new blocks, the contents of an object; the blocks it had before are in `list` then. 0, or a negative errno. */
KILN_FUNCTION int kiln_pool_publish(const KILN_POOL_ID *id, struct kiln_pool_list *list, __u32 bytes, __u64 version,
				    __u64 flags)
{
	for (__u32 try = 0; try < KILN_POOL_TRIES; try++) {
		struct kiln_pool_handle *handle = bpf_map_lookup_elem(&kiln_pool_objects, id);
		__u64 state;

		if (!handle) {
			if (flags == BPF_EXIST)
				return -ENOENT;
			if (kiln_pool_insert(id))
				return -ENOMEM;
			continue;
		}
		bpf_spin_lock(&handle->lock);
		state = handle->state;
		if (state == KILN_POOL_DYING || !kiln_pool_same(&handle->id, id)) {
			bpf_spin_unlock(&handle->lock);
			continue;
		}
		if (flags == (state == KILN_POOL_LIVE ? BPF_NOEXIST : BPF_EXIST)) {
			bpf_spin_unlock(&handle->lock);
			return flags == BPF_EXIST ? -ENOENT : -EEXIST;
		}
		KILN_POOL_ONCE(handle->version) = 0;
		kiln_pool_order();
#pragma unroll
		for (__u32 at = 0; at < KILN_POOL_LIST; at++) {
			kiln_pool_number before = handle->list.block[at];

			KILN_POOL_ONCE(handle->list.block[at]) = list->block[at];
			list->block[at] = before;
		}
		KILN_POOL_ONCE(handle->bytes) = bytes;
		KILN_POOL_ONCE(handle->state) = KILN_POOL_LIVE;
		kiln_pool_order();
		KILN_POOL_ONCE(handle->version) = version;
		bpf_spin_unlock(&handle->lock);
		return 0;
	}
	return -EBUSY;
}

/* Creates or replaces an object: from a buffer, or with zeros. */
static __always_inline int kiln_pool_put(const KILN_POOL_ID *id, const void *from, const void *end, __u32 bytes,
					 __u64 flags, int zeros)
{
	struct kiln_pool_list list = {};
	__u64 version;
	int result;

	if (bytes > KILN_POOL_MAX)
		return -E2BIG;
	if (!zeros && from + bytes > end)
		return -ENOSPC;
	version = kiln_pool_take(&list, 0, kiln_pool_blocks_of(kiln_pool_bits(bytes, KILN_POOL_SIZES)));
	if (!version)
		return -ENOMEM;
	result = zeros ? kiln_pool_clear(&list) : kiln_pool_fill(&list, from, end, kiln_pool_bits(bytes, KILN_POOL_SIZES));
	if (!result)
		result = kiln_pool_publish(id, &list, bytes, version, flags);
	kiln_pool_give(&list);
	return result;
}

KILN_FUNCTION int kiln_pool_alloc(const KILN_POOL_ID *id, __u32 bytes)
{
	return kiln_pool_put(id, 0, 0, bytes, BPF_NOEXIST, 1);
}

KILN_FUNCTION int kiln_pool_write(const KILN_POOL_ID *id, const void *from, const void *end, __u32 bytes, __u64 flags)
{
	return kiln_pool_put(id, from, end, bytes, flags, 0);
}

/* The living object with this id, locked; NULL, and nothing locked, if there is none. */
static __always_inline struct kiln_pool_handle *kiln_pool_lock_live(const KILN_POOL_ID *id)
{
	struct kiln_pool_handle *handle = bpf_map_lookup_elem(&kiln_pool_objects, id);

	if (!handle)
		return 0;
	bpf_spin_lock(&handle->lock);
	if (handle->state == KILN_POOL_LIVE && kiln_pool_same(&handle->id, id))
		return handle;
	bpf_spin_unlock(&handle->lock);
	return 0;
}

KILN_FUNCTION int kiln_pool_free(const KILN_POOL_ID *id)
{
	struct kiln_pool_handle *handle = kiln_pool_lock_live(id);
	struct kiln_pool_list list;

	if (!handle)
		return -ENOENT;
	list = handle->list;
	KILN_POOL_ONCE(handle->version) = 0;
	KILN_POOL_ONCE(handle->state) = KILN_POOL_DYING;
	bpf_spin_unlock(&handle->lock);
	/* While it is DYING nobody else brings in a handle with this id, so this deletes that one. */
	bpf_map_delete_elem(&kiln_pool_objects, id);
	kiln_pool_give(&list);
	return 0;
}

/* Copies a handle's contents; how many bytes, or a negative errno. -EAGAIN: a block is not there any more. */
KILN_FUNCTION int kiln_pool_copy_out(struct kiln_pool_handle *handle, void *to, const void *end)
{
	__u32 bytes = KILN_POOL_ONCE(handle->bytes), whole = bytes / KILN_POOL_CHUNK;
	__u32 last = kiln_pool_bits(bytes, KILN_POOL_SIZES) / KILN_POOL_CHUNK, rest = kiln_pool_bits(bytes, KILN_POOL_CHUNK - 1);
	struct kiln_pool_block *block;
	kiln_pool_number number;

	if (bytes > KILN_POOL_MAX)
		return -EAGAIN;
	if (to + bytes > end)
		return -ENOSPC;
	for (__u32 index = 0; index < KILN_POOL_LIST; index++) {
		if (index >= whole)
			break;
		KILN_POOL_PAUSE();
		number = KILN_POOL_ONCE(handle->list.block[index]);
		block = kiln_pool_block(number);
		if (!block)
			return -EAGAIN;
		if (!kiln_pool_copy_chunk(to + index * KILN_POOL_CHUNK, block->words, to + index * KILN_POOL_CHUNK, end))
			return -ENOSPC;
	}
	if (!rest || last >= KILN_POOL_LIST)
		return bytes;
	number = KILN_POOL_ONCE(handle->list.block[last]);
	block = kiln_pool_block(number);
	if (!block)
		return -EAGAIN;
	to += last * KILN_POOL_CHUNK;
	return kiln_pool_copy_rest(to, block->words, to, end, rest) ? bytes : -ENOSPC;
}

KILN_FUNCTION int kiln_pool_read(const KILN_POOL_ID *id, void *to, const void *end)
{
	for (__u32 try = 0; try < KILN_POOL_TRIES; try++) {
		struct kiln_pool_handle *handle = bpf_map_lookup_elem(&kiln_pool_objects, id);
		__u64 version;
		int result;

		if (!handle)
			return -ENOENT;
		version = KILN_POOL_ONCE(handle->version);
		kiln_pool_order();
		if (KILN_POOL_ONCE(handle->state) != KILN_POOL_LIVE)
			return -ENOENT;
		if (!version || !kiln_pool_same(&handle->id, id))
			continue;
		result = kiln_pool_copy_out(handle, to, end);
		kiln_pool_order();
#ifdef KILN_POOL_UNCHECKED
		/* As it was published, for the test that shows what the check is for. */
		version = KILN_POOL_ONCE(handle->version);
#endif
		if (KILN_POOL_ONCE(handle->version) == version && result != -EAGAIN)
			return result;
	}
	return -EBUSY;
}

/*
 * One try of kiln_pool_resize; -EAGAIN when another program was first. The first bytes stay where they are: blocks are added
 * at the end or given back.
 */
KILN_FUNCTION int kiln_pool_try_resize(const KILN_POOL_ID *id, __u32 bytes)
{
	__u32 after = kiln_pool_blocks_of(kiln_pool_bits(bytes, KILN_POOL_SIZES)), before;
	struct kiln_pool_handle *handle = kiln_pool_lock_live(id);
	struct kiln_pool_list list, more = {}, less = {};
	struct kiln_pool_block *last = 0;
	__u64 version, seen;

	if (!handle)
		return -ENOENT;
	list = handle->list;
	before = handle->bytes;
	seen = handle->version;
	bpf_spin_unlock(&handle->lock);

	version = kiln_pool_take(&more, kiln_pool_blocks_of(before), kiln_pool_bits(after, KILN_POOL_LENGTHS));
	if (!version)
		return -ENOMEM;
	if (kiln_pool_clear(&more)) {
		kiln_pool_give(&more);
		return -ENOMEM;
	}
	if (bytes < before && bytes % KILN_POOL_CHUNK)
		last = kiln_pool_block(list.block[kiln_pool_bits(bytes, KILN_POOL_MAX - 1) / KILN_POOL_CHUNK]);
#pragma unroll
	for (__u32 at = 0; at < KILN_POOL_LIST; at++) {
		__u64 stays = kiln_pool_below(at, after);

		less.block[at] = list.block[at] * (1 - stays);
		list.block[at] = list.block[at] * stays + more.block[at];
	}
	bpf_spin_lock(&handle->lock);
	if (handle->version != seen) {
		bpf_spin_unlock(&handle->lock);
		kiln_pool_give(&more);
		return -EAGAIN;
	}
	KILN_POOL_ONCE(handle->version) = 0;
	kiln_pool_order();
	if (last)
		kiln_pool_clear_from(last, bytes % KILN_POOL_CHUNK);
	handle->list = list;
	KILN_POOL_ONCE(handle->bytes) = bytes;
	kiln_pool_order();
	KILN_POOL_ONCE(handle->version) = version;
	bpf_spin_unlock(&handle->lock);
	kiln_pool_give(&less);
	return 0;
}

#endif
