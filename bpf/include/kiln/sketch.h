/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Two sketches of how often keys occur: count-min (never too low) and count (too high or too low, on average right). */
#ifndef KILN_SKETCH_H
#define KILN_SKETCH_H

#include <kiln/heap.h>

#define KILN_SKETCH_ROWS 3
#define KILN_SKETCH_COLUMNS 1024 /* a power of two */

struct kiln_countmin {
	__u32 cells[KILN_SKETCH_ROWS][KILN_SKETCH_COLUMNS];
};

struct kiln_count {
	__s32 cells[KILN_SKETCH_ROWS][KILN_SKETCH_COLUMNS];
};

static __always_inline __u64 kiln_sketch_hash(__u64 key, __u64 row)
{
	key = (key ^ (row + 1) * 0xd6e8feb86659fd93ull) * 0x9e3779b97f4a7c15ull;
	key ^= key >> 32;
	return key * 0xd6e8feb86659fd93ull >> 20;
}

/*
 * Which of two numbers of 32 bits is less is as random as the keys, so a branch on it is often predicted wrongly. Compilers
 * for BPF make branches of comparisons; a shift of the difference has none. The empty asm keeps them from seeing that it
 * compares.
 */
static __always_inline __s64 kiln_sketch_below(__s64 a, __s64 b)
{
	__s64 below = (a - b) >> 63; /* -1 or 0 */

	asm("" : "+r"(below));
	return below;
}

static __always_inline __s64 kiln_sketch_min(__s64 a, __s64 b)
{
	return b + ((a - b) & kiln_sketch_below(a, b));
}

static __always_inline __s64 kiln_sketch_max(__s64 a, __s64 b)
{
	return a - ((a - b) & kiln_sketch_below(a, b));
}

/* Counts `times` more of a key. */
KILN_FUNCTION int kiln_countmin_add(struct kiln_countmin *sketch, __u64 key, __u32 times)
{
	for (int row = 0; row < KILN_SKETCH_ROWS; row++)
		sketch->cells[row][kiln_sketch_hash(key, row) & (KILN_SKETCH_COLUMNS - 1)] += times;
	return 0;
}

/* How often a key was counted, at most. */
KILN_FUNCTION __u32 kiln_countmin_get(struct kiln_countmin *sketch, __u64 key)
{
	__s64 least = ~0u;

	for (int row = 0; row < KILN_SKETCH_ROWS; row++)
		least = kiln_sketch_min(
			sketch->cells[row][kiln_sketch_hash(key, row) & (KILN_SKETCH_COLUMNS - 1)], least);
	return least;
}

/* The number, negated for half of the keys. */
static __always_inline __s64 kiln_count_signed(__s64 number, __u64 hash)
{
	__s64 negate = kiln_sketch_below(hash >> 20 & 1, 1);

	return (number ^ negate) - negate;
}

/* Counts `times` more of a key. */
KILN_FUNCTION int kiln_count_add(struct kiln_count *sketch, __u64 key, __s32 times)
{
	for (int row = 0; row < KILN_SKETCH_ROWS; row++) {
		__u64 hash = kiln_sketch_hash(key, row);

		sketch->cells[row][hash & (KILN_SKETCH_COLUMNS - 1)] += kiln_count_signed(times, hash);
	}
	return 0;
}

static __always_inline __s64 kiln_count_cell(struct kiln_count *sketch, __u64 key, __u64 row)
{
	__u64 hash = kiln_sketch_hash(key, row);

	return kiln_count_signed(sketch->cells[row][hash & (KILN_SKETCH_COLUMNS - 1)], hash);
}

/* How often a key was counted: the median of three estimates. */
KILN_FUNCTION __s32 kiln_count_get(struct kiln_count *sketch, __u64 key)
{
	__s64 a = kiln_count_cell(sketch, key, 0), b = kiln_count_cell(sketch, key, 1), c = kiln_count_cell(sketch, key, 2);

	return kiln_sketch_max(kiln_sketch_min(a, b), kiln_sketch_min(kiln_sketch_max(a, b), c));
}

#endif
