/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A pool of equal blocks: an array whose free elements are linked. */
#include <kiln/heap.h>

#define malloc kiln_malloc

kiln_heap(8 << 20);

#define SIZE 32
union block {
	union block *next;
	long value;
};
union block *blocks, *unused, *taken[8];

static long step(int what, int key, int value)
{
	union block *b;

	if (!blocks) {
		blocks = malloc(SIZE * sizeof(*blocks));
		if (!blocks)
			return -2;
		for (int i = 0; i < SIZE; i++) {
			blocks[i].next = unused;
			unused = &blocks[i];
		}
	}
	b = taken[key & 7];
	if (what == 0)
		return b ? b->value : -1;
	if (b) {
		b->next = unused;
		unused = b;
		taken[key & 7] = 0;
	}
	if (what == 2)
		return b != 0;
	b = unused;
	if (!b)
		return -1;
	unused = b->next;
	b->value = value;
	taken[key & 7] = b;
	return b - blocks;
}

#include "run.h"
