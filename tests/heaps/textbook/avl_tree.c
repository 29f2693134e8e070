/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An AVL tree with parents. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct tree {
	int key, value, height;
	struct tree *left, *right, *parent;
};
struct tree *root;

static int height(struct tree *t)
{
	return t ? t->height : 0;
}

static void measure(struct tree *t)
{
	int l = height(t->left), r = height(t->right);

	t->height = (l > r ? l : r) + 1;
}

static void replace(struct tree *old, struct tree *new)
{
	struct tree *parent = old->parent;

	if (!parent)
		root = new;
	else if (parent->left == old)
		parent->left = new;
	else
		parent->right = new;
	new->parent = parent;
}

static struct tree *rotate_left(struct tree *t)
{
	struct tree *up = t->right;

	replace(t, up);
	t->right = up->left;
	if (t->right)
		t->right->parent = t;
	up->left = t;
	t->parent = up;
	measure(t);
	measure(up);
	return up;
}

static struct tree *rotate_right(struct tree *t)
{
	struct tree *up = t->left;

	replace(t, up);
	t->left = up->right;
	if (t->left)
		t->left->parent = t;
	up->right = t;
	t->parent = up;
	measure(t);
	measure(up);
	return up;
}

static void balance(struct tree *t)
{
	for (; t; t = t->parent) {
		int lean;

		measure(t);
		lean = height(t->left) - height(t->right);
		if (lean > 1) {
			if (height(t->left->left) < height(t->left->right))
				rotate_left(t->left);
			t = rotate_right(t);
		} else if (lean < -1) {
			if (height(t->right->right) < height(t->right->left))
				rotate_right(t->right);
			t = rotate_left(t);
		}
	}
}

static long step(int what, int key, int value)
{
	struct tree *t = root, *parent = 0;

	while (t && t->key != key) {
		parent = t;
		t = key < t->key ? t->left : t->right;
	}
	if (what == 0)
		return t ? t->value : -1;
	if (what == 2)
		return height(root);
	if (!t) {
		t = malloc(sizeof(*t));
		if (!t)
			return -2;
		t->key = key;
		t->left = t->right = 0;
		t->height = 1;
		t->parent = parent;
		if (!parent)
			root = t;
		else if (key < parent->key)
			parent->left = t;
		else
			parent->right = t;
		balance(parent);
	}
	t->value = value;
	return 1;
}

#include "run.h"
