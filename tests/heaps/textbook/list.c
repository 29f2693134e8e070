/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A singly linked list. */
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
	struct node *n = head, *before = 0;

	while (n && n->key != key) {
		before = n;
		n = n->next;
	}
	if (what == 0)
		return n ? n->value : -1;
	if (what == 1) {
		if (!n) {
			n = malloc(sizeof(*n));
			if (!n)
				return -2;
			n->key = key;
			n->next = head;
			head = n;
		}
		n->value = value;
		return 0;
	}
	if (!n)
		return -1;
	if (before)
		before->next = n->next;
	else
		head = n->next;
	free(n);
	return 1;
}

#include "run.h"
