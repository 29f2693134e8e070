/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What `cargo xtask bench heap` measures: operations on one structure, chosen by -DSTRUCTURE_hash and its like, on keys in
 * random order. The same source is a BPF program and native code; `sum` shows that both did the same.
 */
#include <kiln/heap.h>

struct request {
	__u64 count, seed; /* how many operations, and on which keys; for filling, the first key */
	__u64 sum;
	__u64 latency; /* of the last operation, where that is measured */
};

static __always_inline __u64 next(__u64 random)
{
	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	return random;
}

#define KEYS 65536
#define KEY(random) ((random) >> 20 & (KEYS - 1))

#if defined(STRUCTURE_hash)
#include <kiln/hash.h>
typedef struct kiln_hash structure;
#define CREATE(all) kiln_hash_create(all, KEYS)
#define LOOKUP(all, key) ({ struct kiln_hash_entry *found = kiln_hash_find(all, key); found ? found->value : 0; })
#define UPDATE(all, key, value) kiln_hash_set(all, key, value)
#define DELETE(all, key) kiln_hash_remove(all, key)
#elif defined(STRUCTURE_tree)
#include <kiln/rbtree.h>
typedef struct kiln_tree structure;
#define CREATE(all) ((all)->root = 0, (all)->count = 0, 0)
#define LOOKUP(all, key) ({ struct kiln_tree_node *found = kiln_tree_find(all, key); found ? found->value : 0; })
#define UPDATE(all, key, value) kiln_tree_set(all, key, value)
#define DELETE(all, key) kiln_tree_remove(all, key)
#elif defined(STRUCTURE_skip)
#include <kiln/skiplist.h>
typedef struct kiln_skip structure;
#define CREATE(all) kiln_skip_create(all, 88172645463325252ull)
#define LOOKUP(all, key) ({ struct kiln_skip_node *found = kiln_skip_find(all, key); found ? found->value : 0; })
#define UPDATE(all, key, value) kiln_skip_set(all, key, value)
#define DELETE(all, key) kiln_skip_remove(all, key)
#elif defined(STRUCTURE_list)
#include <kiln/list.h>
/* A walk of 65536 elements would measure the memory: 256 elements here. */
#undef KEYS
#define KEYS 256
typedef struct kiln_list structure;
#define CREATE(all) ((all)->first = 0, (all)->count = 0, 0)
#define LOOKUP(all, key) ({ struct kiln_list_node *found = kiln_list_find(all, key); found ? found->value : 0; })
static __always_inline void list_update(struct kiln_list *all, __u64 key, __u64 value)
{
	struct kiln_list_node *found = kiln_list_find(all, key);

	if (found)
		found->value = value;
	else
		kiln_list_push(all, key, value);
}
#define UPDATE(all, key, value) list_update(all, key, value)
#define DELETE(all, key) kiln_list_remove(all, key)
#elif defined(STRUCTURE_countmin)
#include <kiln/sketch.h>
typedef struct kiln_countmin structure;
#define CREATE(all) 0
#define LOOKUP(all, key) kiln_countmin_get(all, key)
#define UPDATE(all, key, value) kiln_countmin_add(all, key, 1)
#elif defined(STRUCTURE_count)
#include <kiln/sketch.h>
typedef struct kiln_count structure;
#define CREATE(all) 0
#define LOOKUP(all, key) kiln_count_get(all, key)
#define UPDATE(all, key, value) kiln_count_add(all, key, 1)
#elif defined(STRUCTURE_bp)
#include <kiln/bptree.h>
typedef struct kiln_bp structure;
#define CREATE(all) ((all)->root = 0, (all)->count = 0, 0)
#define LOOKUP(all, key) ({ __u64 *found = kiln_bp_find(all, key); found ? *found : 0; })
#define UPDATE(all, key, value) kiln_bp_set(all, key, value)
#define DELETE(all, key) kiln_bp_remove(all, key)
#elif defined(STRUCTURE_clock)
#include <kiln/clock.h>
/* The largest cache. */
#undef KEYS
#define KEYS 16384
typedef struct kiln_clock structure;
#define CREATE(all) kiln_clock_create(all, KEYS)
#define LOOKUP(all, key) ({ struct kiln_clock_entry *found = kiln_clock_find(all, key); found ? found->value : 0; })
#define UPDATE(all, key, value) kiln_clock_set(all, key, value)
#define DELETE(all, key) kiln_clock_remove(all, key)
#elif defined(STRUCTURE_wheel)
#include <kiln/wheel.h>
typedef struct kiln_wheel structure;
#define CREATE(all) kiln_wheel_create(all, KEYS, 0)
#define LOOKUP(all, key) 0
/* Starts a timer; after the filling, one that is due is taken out. */
static __always_inline void wheel_update(struct kiln_wheel *all, __u64 key)
{
	struct kiln_timer *due;

	kiln_wheel_add(all, all->now + (key & 4095), key);
	if (all->count <= KEYS)
		return;
	due = kiln_wheel_due(all, all->now + 4096);
	if (due)
		kiln_free(due);
}
#define UPDATE(all, key, value) wheel_update(all, key)
/* Starts a timer and stops it. */
static __always_inline void wheel_delete(struct kiln_wheel *all, __u64 key)
{
	struct kiln_timer *timer = kiln_wheel_add(all, all->now + (key & 4095), key);

	if (timer) {
		kiln_wheel_stop(all, timer);
		kiln_free(timer);
	}
}
#define DELETE(all, key) wheel_delete(all, key)
#define DELETES_ONLY
#elif defined(STRUCTURE_ring)
#include <kiln/ring.h>
typedef struct kiln_ring structure;
#define CREATE(all) kiln_ring_create(all, 4096)
#define LOOKUP(all, key) kiln_ring_count(all)
/* Puts a value in and takes one out. */
#define UPDATE(all, key, value) ({ __u64 out = 0; kiln_ring_push(all, value); kiln_ring_pop(all, &out); sum += out; })
#elif defined(STRUCTURE_bloom)
#include <kiln/bloom.h>
typedef struct kiln_bloom structure;
#define CREATE(all) kiln_bloom_create(all, KEYS)
#define LOOKUP(all, key) kiln_bloom_has(all, key)
#define UPDATE(all, key, value) kiln_bloom_add(all, key)
#elif defined(STRUCTURE_cuckoo)
#include <kiln/cuckoo.h>
typedef struct kiln_cuckoo structure;
#define CREATE(all) kiln_cuckoo_create(all, KEYS)
#define LOOKUP(all, key) kiln_cuckoo_has(all, key)
#define UPDATE(all, key, value) ({ if (!kiln_cuckoo_has(all, key)) kiln_cuckoo_add(all, key); })
#define DELETE(all, key) kiln_cuckoo_remove(all, key)
#endif

#ifndef STRUCTURE_bpf_hash
static structure *create(void)
{
	__u64 *memory = kiln_malloc(sizeof(structure));

	if (!memory)
		return 0;
	for (__u64 at = 0; at < sizeof(structure) / 8; at++)
		memory[at] = 0;
	return CREATE((structure *)memory) ? 0 : (structure *)memory;
}
#endif
