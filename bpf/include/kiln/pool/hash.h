/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Blocks in a hash map, each under a number that is used once (Kerby, section 2). Included by kiln/pool/maps.h. */
#ifndef KILN_POOL_HASH_H
#define KILN_POOL_HASH_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, kiln_pool_number);
	__type(value, struct kiln_pool_block);
	__uint(max_entries, KILN_POOL_COUNT);
} kiln_pool_blocks SEC(".maps");

/* The next number. */
static __u64 kiln_pool_next = 1;

/* Numbers for the blocks `from` to `to` of a list; a version for its object. The blocks come when they are filled. */
static __always_inline __u64 kiln_pool_take(struct kiln_pool_list *list, __u32 from, __u32 to)
{
	__u64 first = __sync_fetch_and_add(&kiln_pool_next, KILN_POOL_LIST);

	for (__u32 at = 0; at < KILN_POOL_LIST; at++)
		list->block[at] = (first + at) * kiln_pool_below(at, to) * (1 - kiln_pool_below(at, from));
	return first;
}

static __always_inline struct kiln_pool_block *kiln_pool_block(__u64 number)
{
	return bpf_map_lookup_elem(&kiln_pool_blocks, &number);
}

static __always_inline void kiln_pool_give_block(__u64 number)
{
	bpf_map_delete_elem(&kiln_pool_blocks, &number);
}

static __always_inline int kiln_pool_fill_block(__u64 number, const void *from, const void *end)
{
	if (from + KILN_POOL_CHUNK > end)
		return -ENOSPC;
	return bpf_map_update_elem(&kiln_pool_blocks, &number, from, BPF_ANY);
}

/* Less than a block, and zeros after it. */
KILN_FUNCTION int kiln_pool_fill_rest(__u64 number, const void *from, const void *end, __u32 bytes)
{
	struct kiln_pool_block block = {};

	if (!kiln_pool_copy_rest(block.words, from, from, end, bytes))
		return -ENOSPC;
	return bpf_map_update_elem(&kiln_pool_blocks, &number, &block, BPF_ANY);
}

static const struct kiln_pool_block kiln_pool_zeros;

static __always_inline int kiln_pool_clear_block(__u64 number)
{
	return bpf_map_update_elem(&kiln_pool_blocks, &number, &kiln_pool_zeros, BPF_ANY);
}

#endif
