/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A stack of linked nodes; evaluates in reverse Polish notation. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct node {
	struct node *next;
	long value;
};
struct node *top;

static int push(long value)
{
	struct node *n = malloc(sizeof(*n));

	if (!n)
		return -2;
	n->value = value;
	n->next = top;
	top = n;
	return 0;
}

static long pop(void)
{
	struct node *n = top;
	long value;

	if (!n)
		return -1;
	value = n->value;
	top = n->next;
	free(n);
	return value;
}

static long step(int what, int key, int value)
{
	long a, b;

	if (what == 1)
		return push(value);
	if (what == 0)
		return top ? top->value : -1;
	a = pop();
	b = pop();
	push(key & 1 ? a + b : a - b);
	return top->value;
}

#include "run.h"
