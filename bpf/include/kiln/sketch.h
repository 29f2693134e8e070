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
	__u32 least = ~0u;

	for (int row = 0; row < KILN_SKETCH_ROWS; row++) {
		__u32 cell = sketch->cells[row][kiln_sketch_hash(key, row) & (KILN_SKETCH_COLUMNS - 1)];

		least = cell < least ? cell : least;
	}
	return least;
}

/* Counts `times` more of a key. */
KILN_FUNCTION int kiln_count_add(struct kiln_count *sketch, __u64 key, __s32 times)
{
	for (int row = 0; row < KILN_SKETCH_ROWS; row++) {
		__u64 hash = kiln_sketch_hash(key, row);

		sketch->cells[row][hash & (KILN_SKETCH_COLUMNS - 1)] += hash >> 20 & 1 ? times : -times;
	}
	return 0;
}

static __always_inline __s32 kiln_count_cell(struct kiln_count *sketch, __u64 key, __u64 row)
{
	__u64 hash = kiln_sketch_hash(key, row);
	__s32 cell = sketch->cells[row][hash & (KILN_SKETCH_COLUMNS - 1)];

	return hash >> 20 & 1 ? cell : -cell;
}

/* How often a key was counted: the median of three estimates. */
KILN_FUNCTION __s32 kiln_count_get(struct kiln_count *sketch, __u64 key)
{
	__s32 a = kiln_count_cell(sketch, key, 0), b = kiln_count_cell(sketch, key, 1), c = kiln_count_cell(sketch, key, 2);

	if (a > b) {
		__s32 swap = a;

		a = b;
		b = swap;
	}
	return c < a ? a : c > b ? b : c;
}

#endif
