/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A Fenwick tree: sums of prefixes. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define SIZE 128
long *sums;

static long step(int what, int key, int value)
{
	int i = (key & (SIZE - 1)) + 1;
	long sum = 0;

	if (!sums) {
		sums = malloc((SIZE + 1) * sizeof(long));
		if (!sums)
			return -2;
		for (int at = 0; at <= SIZE; at++)
			sums[at] = 0;
	}
	if (what == 1) {
		for (; i <= SIZE; i += i & -i)
			sums[i] += value;
		return 0;
	}
	for (; i > 0; i -= i & -i)
		sum += sums[i];
	return sum;
}

#include "run.h"
