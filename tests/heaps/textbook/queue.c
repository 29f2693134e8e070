/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A queue of linked nodes. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct node {
	struct node *next;
	int value;
};
struct node *front, *rear;

static long step(int what, int key, int value)
{
	if (what == 1) {
		struct node *n = malloc(sizeof(*n));

		if (!n)
			return -2;
		n->value = value;
		n->next = 0;
		if (rear)
			rear->next = n;
		else
			front = n;
		rear = n;
		return 0;
	}
	if (what == 2) {
		struct node *n = front;
		int out;

		if (!n)
			return -1;
		out = n->value;
		front = n->next;
		if (!front)
			rear = 0;
		free(n);
		return out;
	}
	return front ? front->value + rear->value : -1;
}

#include "run.h"
