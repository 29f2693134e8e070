/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A top-down splay tree, with its header on the stack. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct tree {
	int key, value;
	struct tree *left, *right;
};
struct tree *root;

static struct tree *splay(int key, struct tree *t)
{
	struct tree header, *l = &header, *r = &header, *y;

	if (!t)
		return t;
	header.left = header.right = 0;
	for (;;) {
		if (key < t->key) {
			if (!t->left)
				break;
			if (key < t->left->key) {
				y = t->left;
				t->left = y->right;
				y->right = t;
				t = y;
				if (!t->left)
					break;
			}
			r->left = t;
			r = t;
			t = t->left;
		} else if (key > t->key) {
			if (!t->right)
				break;
			if (key > t->right->key) {
				y = t->right;
				t->right = y->left;
				y->left = t;
				t = y;
				if (!t->right)
					break;
			}
			l->right = t;
			l = t;
			t = t->right;
		} else {
			break;
		}
	}
	l->right = t->left;
	r->left = t->right;
	t->left = header.right;
	t->right = header.left;
	return t;
}

static long step(int what, int key, int value)
{
	struct tree *n;

	root = splay(key, root);
	if (what != 1)
		return root && root->key == key ? root->value : -1;
	if (root && root->key == key) {
		root->value = value;
		return 0;
	}
	n = malloc(sizeof(*n));
	if (!n)
		return -2;
	n->key = key;
	n->value = value;
	n->left = n->right = 0;
	if (root && key < root->key) {
		n->left = root->left;
		n->right = root;
		root->left = 0;
	} else if (root) {
		n->right = root->right;
		n->left = root;
		root->right = 0;
	}
	root = n;
	return 1;
}

#include "run.h"
