/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A binary trie by bits. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct node {
	struct node *bit[2];
	int used, value;
};
struct node *root;

static long step(int what, int key, int value)
{
	struct node **link = &root;

	for (int i = 7; i >= -1; i--) {
		if (!*link) {
			struct node *n;

			if (what != 1)
				return -1;
			n = malloc(sizeof(*n));
			if (!n)
				return -2;
			n->bit[0] = n->bit[1] = 0;
			n->used = 0;
			*link = n;
		}
		if (i >= 0)
			link = &(*link)->bit[key >> i & 1];
	}
	if (what == 1) {
		(*link)->used = 1;
		(*link)->value = value;
		return 0;
	}
	if (what == 2)
		(*link)->used = 0;
	return (*link)->used ? (*link)->value : -1;
}

#include "run.h"
