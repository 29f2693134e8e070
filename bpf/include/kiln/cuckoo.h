/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cuckoo filter of 64-bit keys, for one writer at a time: like a Bloom filter, but keys can be removed. A key's fingerprint of 16
 * bits is in one of two buckets, each of which follows from the other and the fingerprint. A bucket is one word of four
 * fingerprints. One that finds no place after KILN_CUCKOO_KICKS moves waits outside, and then the filter is full.
 */
#ifndef KILN_CUCKOO_H
#define KILN_CUCKOO_H

#include <kiln/heap.h>

#define KILN_CUCKOO_KICKS 128

struct kiln_cuckoo {
	__u64 *buckets;
	__u64 mask; /* buckets - 1 */
	__u64 count;
	__u64 kicks; /* KILN_CUCKOO_KICKS: read from the heap, because the verifier would unroll loops up to a constant */
	__u64 waiting, waiting_bucket; /* a fingerprint without a place, or 0 */
};

/* Makes an empty filter. `buckets` is a power of two, at most 65536; 0 on success, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_cuckoo_create(struct kiln_cuckoo *cuckoo, __u64 buckets)
{
	cuckoo->buckets = kiln_malloc(buckets * sizeof(*cuckoo->buckets));
	if (!cuckoo->buckets)
		return -1;
	cuckoo->mask = buckets - 1;
	cuckoo->count = cuckoo->waiting = 0;
	cuckoo->kicks = KILN_CUCKOO_KICKS;
	for (__u64 at = 0; at <= *(volatile __u64 *)&cuckoo->mask; at++)
		cuckoo->buckets[at] = 0;
	return 0;
}

static __always_inline __u64 kiln_cuckoo_hash(__u64 key)
{
	key *= 0x9e3779b97f4a7c15ull;
	key ^= key >> 32;
	return key * 0xd6e8feb86659fd93ull;
}

/* 1 to 65535: 0 is an empty place. */
static __always_inline __u64 kiln_cuckoo_print(__u64 hash)
{
	__u64 print = hash >> 48;

	return print + !print;
}

static __always_inline __u64 kiln_cuckoo_other(struct kiln_cuckoo *cuckoo, __u64 bucket, __u64 print)
{
	return (bucket ^ kiln_cuckoo_hash(print) >> 20) & cuckoo->mask;
}

#define KILN_CUCKOO_ONES 0x0001000100010001ull

/*
 * The first place of a fingerprint in a bucket, as 1 in its lowest bit; 0 when it is not there. All four are compared at
 * once: where it is, is random, so branches would be predicted wrongly.
 */
static __always_inline __u64 kiln_cuckoo_place(__u64 bucket, __u64 print)
{
	__u64 differ = bucket ^ print * KILN_CUCKOO_ONES;
	/* The lowest bit that is set is of a place without a difference; a borrow can set others above it. */
	__u64 same = (differ - KILN_CUCKOO_ONES) & ~differ & KILN_CUCKOO_ONES << 15;

	return (same & -same) >> 15;
}

/* Replaces the first `from` of a bucket by `to`. Returns whether there was one. */
KILN_FUNCTION int kiln_cuckoo_replace(struct kiln_cuckoo *cuckoo, __u64 bucket, __u64 from, __u64 to)
{
	__u64 word = cuckoo->buckets[bucket], place = kiln_cuckoo_place(word, from);

	if (!place)
		return 0;
	cuckoo->buckets[bucket] = word ^ (from ^ to) * place;
	return 1;
}

/* Adds a key, whether or not it is there already: 1, or -1 when the filter is full. */
KILN_FUNCTION int kiln_cuckoo_add(struct kiln_cuckoo *cuckoo, __u64 key)
{
	__u64 hash = kiln_cuckoo_hash(key), print = kiln_cuckoo_print(hash), bucket = hash & cuckoo->mask;

	if (cuckoo->waiting)
		return -1;
	cuckoo->count++;
	if (kiln_cuckoo_replace(cuckoo, bucket, 0, print))
		return 1;
	for (__u64 left = *(volatile __u64 *)&cuckoo->kicks; left; left--) {
		__u64 moved;

		bucket = kiln_cuckoo_other(cuckoo, bucket, print);
		if (kiln_cuckoo_replace(cuckoo, bucket, 0, print))
			return 1;
		/* It takes a place here, and the fingerprint that had it moves on. */
		moved = cuckoo->buckets[bucket] >> 16 * (left & 3) & 0xffff;
		cuckoo->buckets[bucket] ^= (moved ^ print) << 16 * (left & 3);
		print = moved;
	}
	cuckoo->waiting = print;
	cuckoo->waiting_bucket = bucket;
	return 1;
}

static __always_inline int kiln_cuckoo_waits(struct kiln_cuckoo *cuckoo, __u64 bucket, __u64 print)
{
	return cuckoo->waiting == print && (cuckoo->waiting_bucket == bucket ||
					    kiln_cuckoo_other(cuckoo, cuckoo->waiting_bucket, print) == bucket);
}

/* Whether a key may be there. */
KILN_FUNCTION int kiln_cuckoo_has(struct kiln_cuckoo *cuckoo, __u64 key)
{
	__u64 hash = kiln_cuckoo_hash(key), print = kiln_cuckoo_print(hash), bucket = hash & cuckoo->mask;

	if (kiln_cuckoo_place(cuckoo->buckets[bucket], print))
		return 1;
	if (kiln_cuckoo_waits(cuckoo, bucket, print))
		return 1;
	bucket = kiln_cuckoo_other(cuckoo, bucket, print);
	return kiln_cuckoo_place(cuckoo->buckets[bucket], print) != 0;
}

/* Removes a key that was added. Returns whether it was there. */
KILN_FUNCTION int kiln_cuckoo_remove(struct kiln_cuckoo *cuckoo, __u64 key)
{
	__u64 hash = kiln_cuckoo_hash(key), print = kiln_cuckoo_print(hash), bucket = hash & cuckoo->mask;

	if (kiln_cuckoo_waits(cuckoo, bucket, print)) {
		cuckoo->waiting = 0;
	} else if (!kiln_cuckoo_replace(cuckoo, bucket, print, 0)) {
		bucket = kiln_cuckoo_other(cuckoo, bucket, print);
		if (!kiln_cuckoo_replace(cuckoo, bucket, print, 0))
			return 0;
	}
	cuckoo->count--;
	return 1;
}

#endif
