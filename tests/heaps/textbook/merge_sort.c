/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sorts a list by merging, from the bottom up, with a first node on the stack. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct node {
	struct node *next;
	int value;
};
struct node *head;

static struct node *merge(struct node *a, struct node *b)
{
	struct node first, *last = &first;

	first.next = 0;
	while (a && b) {
		if (a->value <= b->value) {
			last->next = a;
			a = a->next;
		} else {
			last->next = b;
			b = b->next;
		}
		last = last->next;
	}
	last->next = a ? a : b;
	return first.next;
}

static long step(int what, int key, int value)
{
	struct node *n, *sorted = 0;
	long sum = 0;

	if (what == 1) {
		n = malloc(sizeof(*n));
		if (!n)
			return -2;
		n->value = value;
		n->next = head;
		head = n;
		return 0;
	}
	if (what == 2)
		while (head) {
			n = head;
			head = n->next;
			n->next = 0;
			sorted = merge(sorted, n);
		}
	if (what == 2)
		head = sorted;
	for (n = head; n; n = n->next)
		sum = sum * 5 + n->value;
	return sum;
}

#include "run.h"
