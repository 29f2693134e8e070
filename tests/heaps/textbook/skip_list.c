/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A skip list, as Pugh has it. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define LEVELS 8
struct node {
	int key, value;
	struct node *forward[LEVELS];
};
struct node *header;
unsigned seed = 1;

static int random_level(void)
{
	int level = 1;

	seed = seed * 1103515245 + 12345;
	for (unsigned bits = seed >> 16; bits & 1 && level < LEVELS; bits >>= 1)
		level++;
	return level;
}

static long step(int what, int key, int value)
{
	struct node *x, *update[LEVELS];
	int level;

	if (!header) {
		header = malloc(sizeof(*header));
		if (!header)
			return -2;
		for (int i = 0; i < LEVELS; i++)
			header->forward[i] = 0;
	}
	x = header;
	for (int i = LEVELS - 1; i >= 0; i--) {
		while (x->forward[i] && x->forward[i]->key < key)
			x = x->forward[i];
		update[i] = x;
	}
	x = x->forward[0];
	if (x && x->key != key)
		x = 0;
	if (what == 0)
		return x ? x->value : -1;
	if (what == 1) {
		if (x)
			return x->value = value;
		x = malloc(sizeof(*x));
		if (!x)
			return -2;
		level = random_level();
		x->key = key;
		x->value = value;
		for (int i = 0; i < level; i++) {
			x->forward[i] = update[i]->forward[i];
			update[i]->forward[i] = x;
		}
		return level;
	}
	if (!x)
		return -1;
	for (int i = 0; i < LEVELS; i++)
		if (update[i]->forward[i] == x)
			update[i]->forward[i] = x->forward[i];
	free(x);
	return 1;
}

#include "run.h"
