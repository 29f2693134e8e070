/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cache of a fixed number of entries, for one writer at a time. When it is full, a hand goes round (CLOCK, an
 * approximation of LRU): an entry that was used since the hand was there gets another chance, the next one goes.
 */
#ifndef KILN_CLOCK_H
#define KILN_CLOCK_H

#include <kiln/heap.h>

struct kiln_clock_entry {
	__u64 key, value;
	__u64 used; /* since the hand was here */
	struct kiln_clock_entry *next; /* of the same bucket, or the next free one */
};

struct kiln_clock {
	struct kiln_clock_entry *entries;
	struct kiln_clock_entry **buckets; /* as many as entries */
	struct kiln_clock_entry *free;
	__u64 mask; /* entries - 1 */
	__u64 count, hand, evicted;
};

/* Makes an empty cache. `entries` is a power of two, at most 16384; 0 on success, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_clock_create(struct kiln_clock *cache, __u64 entries)
{
	cache->entries = kiln_malloc(entries * sizeof(*cache->entries));
	cache->buckets = kiln_malloc(entries * sizeof(*cache->buckets));
	if (!cache->entries || !cache->buckets)
		return -1;
	cache->mask = entries - 1;
	cache->count = cache->hand = cache->evicted = 0;
	cache->free = 0;
	for (__u64 at = 0; at <= *(volatile __u64 *)&cache->mask; at++) {
		cache->buckets[at] = 0;
		cache->entries[at].next = cache->free;
		cache->free = &cache->entries[at];
	}
	return 0;
}

static __always_inline struct kiln_clock_entry **kiln_clock_bucket(struct kiln_clock *cache, __u64 key)
{
	return &cache->buckets[(key * 0x9e3779b97f4a7c15ull >> 40) & cache->mask];
}

/* The entry of a key, which counts as used; NULL when there is none. */
KILN_FUNCTION struct kiln_clock_entry *kiln_clock_find(struct kiln_clock *cache, __u64 key)
{
	struct kiln_clock_entry *entry = *kiln_clock_bucket(cache, key);

	while (entry && entry->key != key)
		entry = entry->next;
	if (entry)
		entry->used = 1;
	return entry;
}

/* Removes a key. Returns whether it was there. */
KILN_FUNCTION int kiln_clock_remove(struct kiln_clock *cache, __u64 key)
{
	struct kiln_clock_entry **link = kiln_clock_bucket(cache, key), *entry;

	while ((entry = *link)) {
		if (entry->key == key) {
			*link = entry->next;
			entry->next = cache->free;
			cache->free = entry;
			cache->count--;
			return 1;
		}
		link = &entry->next;
	}
	return 0;
}

/* Sets a key's value: 1 for a new key, 0 for a known one. Another key may go for it. */
KILN_FUNCTION int kiln_clock_set(struct kiln_clock *cache, __u64 key, __u64 value)
{
	struct kiln_clock_entry *entry = kiln_clock_find(cache, key), **bucket;

	if (entry) {
		entry->value = value;
		return 0;
	}
	if (!cache->free) {
		while (cache->entries[cache->hand & cache->mask].used) {
			cache->entries[cache->hand & cache->mask].used = 0;
			cache->hand++;
		}
		cache->evicted++;
		kiln_clock_remove(cache, cache->entries[cache->hand & cache->mask].key);
		cache->hand++;
	}
	entry = cache->free;
	cache->free = entry->next;
	entry->key = key;
	entry->value = value;
	entry->used = 0;
	bucket = kiln_clock_bucket(cache, key);
	entry->next = *bucket;
	*bucket = entry;
	cache->count++;
	return 1;
}

#endif
