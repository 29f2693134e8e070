/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A binary search tree. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct tree {
	int key, value;
	struct tree *left, *right;
};
struct tree *root;

static struct tree *search(int key)
{
	struct tree *t = root;

	while (t && t->key != key)
		t = key < t->key ? t->left : t->right;
	return t;
}

static long insert(int key, int value)
{
	struct tree *t = root, *parent = 0, *n = malloc(sizeof(*n));

	if (!n)
		return -2;
	n->key = key;
	n->value = value;
	n->left = n->right = 0;
	while (t) {
		parent = t;
		if (key == t->key) {
			t->value = value;
			free(n);
			return 0;
		}
		if (key < t->key)
			t = t->left;
		else
			t = t->right;
	}
	if (!parent)
		root = n;
	else if (key < parent->key)
		parent->left = n;
	else
		parent->right = n;
	return 1;
}

static long step(int what, int key, int value)
{
	struct tree *t;

	if (what == 1)
		return insert(key, value);
	if (what == 0) {
		t = search(key);
		return t ? t->value : -1;
	}
	t = root;
	if (!t)
		return -1;
	while (t->left)
		t = t->left;
	return t->key;
}

#include "run.h"
