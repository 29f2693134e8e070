/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A hash table with linear probing. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define SIZE 256
struct slot {
	int used, key, value;
};
struct slot *slots;

static long step(int what, int key, int value)
{
	unsigned i = (unsigned)key * 40503u;

	if (!slots) {
		slots = malloc(SIZE * sizeof(*slots));
		if (!slots)
			return -2;
		for (int at = 0; at < SIZE; at++)
			slots[at].used = 0;
	}
	for (int probes = 0; probes < SIZE; probes++, i++) {
		struct slot *s = &slots[i % SIZE];

		if (!s->used) {
			if (what != 1)
				return -1;
			s->used = 1;
			s->key = key;
			s->value = value;
			return 0;
		}
		if (s->key == key) {
			if (what == 1)
				s->value = value;
			return s->value;
		}
	}
	return -1;
}

#include "run.h"
