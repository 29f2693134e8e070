/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A sorted list, with pointers to links. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct node {
	struct node *next;
	int key, value;
};
struct node *head;

static long step(int what, int key, int value)
{
	struct node **link = &head, *n;

	while (*link && (*link)->key < key)
		link = &(*link)->next;
	n = *link;
	if (what == 0)
		return n && n->key == key ? n->value : -1;
	if (what == 1) {
		if (!n || n->key != key) {
			n = malloc(sizeof(*n));
			if (!n)
				return -2;
			n->key = key;
			n->next = *link;
			*link = n;
		}
		n->value = value;
		return 0;
	}
	if (!n || n->key != key)
		return -1;
	*link = n->next;
	free(n);
	return 1;
}

#include "run.h"
