/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A circular list with a pointer to its last element; the Josephus problem. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct node {
	int key;
	struct node *next;
};
struct node *last;
int count;

static long step(int what, int key, int value)
{
	if (what == 1 || count < 2) {
		struct node *n = malloc(sizeof(*n));

		if (!n)
			return -2;
		n->key = key;
		if (last) {
			n->next = last->next;
			last->next = n;
		} else {
			n->next = n;
		}
		last = n;
		return ++count;
	}
	if (what == 2) {
		struct node *gone;

		for (int i = 0; i < (value & 7); i++)
			last = last->next;
		gone = last->next;
		key = gone->key;
		last->next = gone->next;
		free(gone);
		count--;
		return key;
	}
	long sum = 0;
	struct node *n = last;
	do {
		n = n->next;
		sum = sum * 3 + n->key;
	} while (n != last);
	return sum;
}

#include "run.h"
