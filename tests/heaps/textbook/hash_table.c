/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A hash table with chains, its buckets in a global array. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define BUCKETS 16
struct entry {
	struct entry *next;
	int key, value;
};
struct entry *table[BUCKETS];

static unsigned hash(int key)
{
	return (unsigned)key * 2654435761u >> 7;
}

static long step(int what, int key, int value)
{
	struct entry *e, **link = &table[hash(key) % BUCKETS];

	for (e = *link; e; e = e->next)
		if (e->key == key)
			break;
	if (what == 0)
		return e ? e->value : -1;
	if (what == 1) {
		if (e)
			return e->value = value;
		e = malloc(sizeof(*e));
		if (!e)
			return -2;
		e->key = key;
		e->value = value;
		e->next = *link;
		*link = e;
		return 0;
	}
	for (; *link; link = &(*link)->next)
		if ((*link)->key == key) {
			e = *link;
			*link = e->next;
			free(e);
			return 1;
		}
	return -1;
}

#include "run.h"
