/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An array that grows. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

int *items;
int count, capacity;

static long step(int what, int key, int value)
{
	if (what == 1) {
		if (count == capacity) {
			int more = capacity ? 2 * capacity : 4;
			int *moved = kiln_realloc(items, more * sizeof(int));

			if (!moved)
				return -2;
			items = moved;
			capacity = more;
		}
		items[count++] = value;
		return count;
	}
	if (what == 2)
		return count ? items[--count] : -1;
	for (int i = 0; i < count; i++)
		if (items[i] == value || i == key)
			return items[i];
	return -1;
}

#include "run.h"
