/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A skip list from 64-bit keys to 64-bit values, in the order of keys, for one writer at a time. */
#ifndef KILN_SKIPLIST_H
#define KILN_SKIPLIST_H

#include <kiln/heap.h>

#define KILN_SKIP_LEVELS 16

struct kiln_skip_node {
	__u64 key, value;
	__u64 levels;
	struct kiln_skip_node *next[KILN_SKIP_LEVELS]; /* `levels` of them */
};

struct kiln_skip {
	struct kiln_skip_node *head; /* before all keys, on all levels */
	__u64 levels; /* KILN_SKIP_LEVELS: read from the heap, because the verifier would unroll loops up to a constant */
	__u64 count;
	__u64 random;
};

KILN_FUNCTION struct kiln_skip_node *kiln_skip_node(__u64 levels)
{
	struct kiln_skip_node *node = kiln_malloc(24 + levels * sizeof(node->next[0]));

	if (node)
		node->levels = levels;
	return node;
}

/* Makes an empty list: 0, or -1 when memory is exhausted. `seed` is not 0. */
KILN_FUNCTION int kiln_skip_create(struct kiln_skip *list, __u64 seed)
{
	list->levels = KILN_SKIP_LEVELS;
	list->count = 0;
	list->random = seed;
	list->head = kiln_skip_node(KILN_SKIP_LEVELS);
	if (!list->head)
		return -1;
	for (__u64 level = *(volatile __u64 *)&list->levels; level-- > 0;)
		list->head->next[level] = 0;
	return 0;
}

/* The node of a key; NULL when there is none. */
KILN_FUNCTION struct kiln_skip_node *kiln_skip_find(struct kiln_skip *list, __u64 key)
{
	struct kiln_skip_node *node = list->head, *next = 0;

	for (__u64 level = list->levels; level-- > 0;)
		while ((next = node->next[level]) && next->key < key)
			node = next;
	return next && next->key == key ? next : 0;
}

/* A number of levels: one more with a probability of 1/4 each. Without branches, for the verifier's sake. */
static __always_inline __u64 kiln_skip_random(struct kiln_skip *list)
{
	__u64 random = list->random;
	__u32 pairs;

	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	list->random = random;
	/* The pairs of bits below the lowest one that is not 00 are counted. */
	random >>= 20;
	pairs = ((random | random >> 1) & 0x55555555) | 1u << (2 * (KILN_SKIP_LEVELS - 1));
	pairs = ((pairs & -pairs) - 1) & 0x55555555;
	pairs = (pairs & 0x33333333) + (pairs >> 2 & 0x33333333);
	pairs = (pairs + (pairs >> 4)) & 0x0f0f0f0f;
	return 1 + (pairs * 0x01010101u >> 24);
}

/* Sets a key's value: 1 for a new key, 0 for a known one, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_skip_set(struct kiln_skip *list, __u64 key, __u64 value)
{
	struct kiln_skip_node *node = kiln_skip_find(list, key), *before = list->head, *next;
	__u64 levels;

	if (node) {
		node->value = value;
		return 0;
	}
	levels = kiln_skip_random(list);
	node = kiln_skip_node(levels);
	if (!node)
		return -1;
	node->key = key;
	node->value = value;
	for (__u64 level = list->levels; level-- > 0;) {
		while ((next = before->next[level]) && next->key < key)
			before = next;
		if (level < levels) {
			node->next[level] = next;
			before->next[level] = node;
		}
	}
	list->count++;
	return 1;
}

/* Removes a key. Returns whether it was there. */
KILN_FUNCTION int kiln_skip_remove(struct kiln_skip *list, __u64 key)
{
	struct kiln_skip_node *before = list->head, *next, *found = 0;

	for (__u64 level = list->levels; level-- > 0;) {
		while ((next = before->next[level]) && next->key < key)
			before = next;
		if (next && next->key == key) {
			found = next;
			before->next[level] = next->next[level];
		}
	}
	if (!found)
		return 0;
	list->count--;
	kiln_free(found);
	return 1;
}

#endif
