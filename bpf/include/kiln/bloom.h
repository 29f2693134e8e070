/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A Bloom filter of 64-bit keys: "not there" is certain, "there" is not. Concurrent: any number may add and ask at once. */
#ifndef KILN_BLOOM_H
#define KILN_BLOOM_H

#include <kiln/heap.h>

#define KILN_BLOOM_HASHES 4

struct kiln_bloom {
	__u64 *words;
	__u64 mask; /* words - 1 */
};

/* Makes an empty filter. `words` is a power of two, at most 65536; 0 on success, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_bloom_create(struct kiln_bloom *bloom, __u64 words)
{
	bloom->words = kiln_malloc(words * sizeof(*bloom->words));
	if (!bloom->words)
		return -1;
	bloom->mask = words - 1;
	for (__u64 at = 0; at <= *(volatile __u64 *)&bloom->mask; at++)
		bloom->words[at] = 0;
	return 0;
}

static __always_inline __u64 kiln_bloom_hash(__u64 key, __u64 step)
{
	key = (key ^ (step + 1) * 0xd6e8feb86659fd93ull) * 0x9e3779b97f4a7c15ull;
	key ^= key >> 32;
	return key * 0xd6e8feb86659fd93ull >> 16;
}

/* Adds a key. */
KILN_FUNCTION int kiln_bloom_add(struct kiln_bloom *bloom, __u64 key)
{
	for (int step = 0; step < KILN_BLOOM_HASHES; step++) {
		__u64 hash = kiln_bloom_hash(key, step);

		__sync_fetch_and_or(&bloom->words[hash >> 6 & bloom->mask], 1ull << (hash & 63));
	}
	return 0;
}

/* Whether a key may have been added. */
KILN_FUNCTION int kiln_bloom_has(struct kiln_bloom *bloom, __u64 key)
{
	__u64 all = 1;

	for (int step = 0; step < KILN_BLOOM_HASHES; step++) {
		__u64 hash = kiln_bloom_hash(key, step);

		all &= bloom->words[hash >> 6 & bloom->mask] >> (hash & 63);
	}
	return all;
}

#endif
