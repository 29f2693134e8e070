/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A binary heap in an array. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define SIZE 256
int *heap;
int count;

static void swap(int *a, int *b)
{
	int c = *a;

	*a = *b;
	*b = c;
}

static long step(int what, int key, int value)
{
	int i, least;

	if (!heap)
		heap = malloc(SIZE * sizeof(int));
	if (!heap)
		return -2;
	if (what == 1) {
		if (count == SIZE)
			return -1;
		i = count++;
		heap[i] = value;
		while (i > 0 && heap[(i - 1) / 2] > heap[i]) {
			swap(&heap[(i - 1) / 2], &heap[i]);
			i = (i - 1) / 2;
		}
		return count;
	}
	if (!count)
		return -1;
	if (what == 0)
		return heap[0];
	least = heap[0];
	heap[0] = heap[--count];
	i = 0;
	while (2 * i + 1 < count) {
		int child = 2 * i + 1;

		if (child + 1 < count && heap[child + 1] < heap[child])
			child++;
		if (heap[i] <= heap[child])
			break;
		swap(&heap[i], &heap[child]);
		i = child;
	}
	return least;
}

#include "run.h"
