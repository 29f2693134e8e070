/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A hash map from 64-bit keys to 64-bit values, chained, for one writer at a time. */
#ifndef KILN_HASH_H
#define KILN_HASH_H

#include <kiln/heap.h>

struct kiln_hash_entry {
	__u64 key, value;
	struct kiln_hash_entry *next;
};

struct kiln_hash {
	struct kiln_hash_entry **buckets;
	__u64 mask; /* buckets - 1 */
	__u64 count;
};

/* Makes an empty map. `buckets` is a power of two, at most 65536; 0 on success, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_hash_create(struct kiln_hash *map, __u64 buckets)
{
	map->buckets = kiln_malloc(buckets * sizeof(*map->buckets));
	if (!map->buckets)
		return -1;
	map->mask = buckets - 1;
	map->count = 0;
	/* A bound from the heap: the verifier would explore every iteration up to a bound that it knows. */
	for (__u64 at = 0; at <= *(volatile __u64 *)&map->mask; at++)
		map->buckets[at] = 0;
	return 0;
}

static __always_inline struct kiln_hash_entry **kiln_hash_bucket(struct kiln_hash *map, __u64 key)
{
	return &map->buckets[(key * 0x9e3779b97f4a7c15ull >> 40) & map->mask];
}

/* The entry of a key, whose value may be changed; NULL when there is none. */
KILN_FUNCTION struct kiln_hash_entry *kiln_hash_find(struct kiln_hash *map, __u64 key)
{
	struct kiln_hash_entry *entry = *kiln_hash_bucket(map, key);

	while (entry && entry->key != key)
		entry = entry->next;
	return entry;
}

/* Sets a key's value: 1 for a new key, 0 for a known one, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_hash_set(struct kiln_hash *map, __u64 key, __u64 value)
{
	struct kiln_hash_entry **bucket = kiln_hash_bucket(map, key), *entry = *bucket;

	while (entry && entry->key != key)
		entry = entry->next;
	if (entry) {
		entry->value = value;
		return 0;
	}
	entry = kiln_malloc(sizeof(*entry));
	if (!entry)
		return -1;
	entry->key = key;
	entry->value = value;
	entry->next = *bucket;
	*bucket = entry;
	map->count++;
	return 1;
}

/* Removes a key. Returns whether it was there. */
KILN_FUNCTION int kiln_hash_remove(struct kiln_hash *map, __u64 key)
{
	struct kiln_hash_entry **link = kiln_hash_bucket(map, key), *entry;

	while ((entry = *link)) {
		if (entry->key == key) {
			*link = entry->next;
			map->count--;
			kiln_free(entry);
			return 1;
		}
		link = &entry->next;
	}
	return 0;
}

#endif
