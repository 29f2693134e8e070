/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A binary search tree with pointers to links, and deletion. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct tree {
	int key, value;
	struct tree *left, *right;
};
struct tree *root;

static long step(int what, int key, int value)
{
	struct tree **link = &root, *t;

	while (*link && (*link)->key != key)
		link = key < (*link)->key ? &(*link)->left : &(*link)->right;
	t = *link;
	if (what == 0)
		return t ? t->value : -1;
	if (what == 1) {
		if (!t) {
			t = malloc(sizeof(*t));
			if (!t)
				return -2;
			t->key = key;
			t->left = t->right = 0;
			*link = t;
		}
		t->value = value;
		return 0;
	}
	if (!t)
		return -1;
	if (t->left && t->right) {
		struct tree **least = &t->right, *next;

		while ((*least)->left)
			least = &(*least)->left;
		next = *least;
		t->key = next->key;
		t->value = next->value;
		*least = next->right;
		free(next);
	} else {
		*link = t->left ? t->left : t->right;
		free(t);
	}
	return 1;
}

#include "run.h"
