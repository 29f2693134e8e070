/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A list that is reversed in place. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct node {
	int value;
	struct node *next;
};
struct node *head;

static long step(int what, int key, int value)
{
	struct node *n;
	long sum = 0;

	if (what == 1) {
		n = malloc(sizeof(*n));
		if (!n)
			return -2;
		n->value = value;
		n->next = head;
		head = n;
	} else if (what == 2) {
		struct node *before = 0, *next;

		for (n = head; n; n = next) {
			next = n->next;
			n->next = before;
			before = n;
		}
		head = before;
	}
	for (n = head; n; n = n->next)
		sum = sum * 3 + n->value;
	return sum;
}

#include "run.h"
