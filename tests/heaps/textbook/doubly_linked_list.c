/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A doubly linked list with both ends. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct node {
	int key, value;
	struct node *prev, *next;
};
struct node *first, *last;

static struct node *search(int key)
{
	for (struct node *n = first; n; n = n->next)
		if (n->key == key)
			return n;
	return 0;
}

static long step(int what, int key, int value)
{
	struct node *n = search(key);

	if (what == 0)
		return n ? n->value : -1;
	if (what == 1) {
		if (n)
			return n->value = value;
		n = malloc(sizeof(*n));
		if (!n)
			return -2;
		n->key = key;
		n->value = value;
		n->prev = last;
		n->next = 0;
		if (last)
			last->next = n;
		else
			first = n;
		last = n;
		return 0;
	}
	if (!n)
		return -1;
	if (n->prev)
		n->prev->next = n->next;
	else
		first = n->next;
	if (n->next)
		n->next->prev = n->prev;
	else
		last = n->prev;
	free(n);
	return 1;
}

#include "run.h"
