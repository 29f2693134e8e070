/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A segment tree: least element of a range. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define SIZE 64
int *tree;

static long step(int what, int key, int value)
{
	int i = (key & (SIZE - 1)) + SIZE, end = i + (value & 15), least = 1 << 30;

	if (!tree) {
		tree = malloc(2 * SIZE * sizeof(int));
		if (!tree)
			return -2;
		for (int at = 0; at < 2 * SIZE; at++)
			tree[at] = 1 << 30;
	}
	if (what == 1) {
		tree[i] = value;
		for (i /= 2; i >= 1; i /= 2)
			tree[i] = tree[2 * i] < tree[2 * i + 1] ? tree[2 * i] : tree[2 * i + 1];
		return tree[1];
	}
	if (end > 2 * SIZE)
		end = 2 * SIZE;
	while (i < end) {
		if (i & 1) {
			if (tree[i] < least)
				least = tree[i];
			i++;
		}
		if (end & 1) {
			end--;
			if (tree[end] < least)
				least = tree[end];
		}
		i /= 2;
		end /= 2;
	}
	return least;
}

#include "run.h"
