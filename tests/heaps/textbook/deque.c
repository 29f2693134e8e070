/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A double-ended queue in a ring. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define SIZE 64
int *ring;
unsigned head, tail;

static long step(int what, int key, int value)
{
	if (!ring)
		ring = malloc(SIZE * sizeof(int));
	if (!ring)
		return -2;
	if (what == 1) {
		if (tail - head == SIZE)
			return -1;
		if (key & 1)
			ring[--head % SIZE] = value;
		else
			ring[tail++ % SIZE] = value;
		return tail - head;
	}
	if (head == tail)
		return -1;
	if (what == 2)
		return key & 1 ? ring[head++ % SIZE] : ring[--tail % SIZE];
	return ring[head % SIZE];
}

#include "run.h"
