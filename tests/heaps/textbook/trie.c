/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A trie of decimal numbers. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct trie {
	struct trie *child[10];
	int value;
};
struct trie *root;

static struct trie *make(void)
{
	struct trie *t = malloc(sizeof(*t));

	if (!t)
		return 0;
	for (int i = 0; i < 10; i++)
		t->child[i] = 0;
	t->value = -1;
	return t;
}

static long step(int what, int key, int value)
{
	struct trie *t;

	if (!root)
		root = make();
	t = root;
	if (!t)
		return -2;
	for (unsigned rest = key; rest; rest /= 10) {
		unsigned digit = rest % 10;

		if (!t->child[digit]) {
			if (what != 1)
				return -1;
			t->child[digit] = make();
		}
		t = t->child[digit];
		if (!t)
			return -2;
	}
	if (what == 0)
		return t->value;
	t->value = what == 1 ? value : -1;
	return 0;
}

#include "run.h"
