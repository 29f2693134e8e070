/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A red-black tree from 64-bit keys to 64-bit values, for one writer at a time.
 *
 * No red node has a red child, and every path from the root to a missing child passes the same number of black nodes. A child
 * is addressed by its side, so that each case of a repair is written once: `!side` is its mirror image.
 */
#ifndef KILN_RBTREE_H
#define KILN_RBTREE_H

#include <kiln/heap.h>
#include <kiln/ops.h>

struct kiln_tree_node {
	__u64 key, value;
	struct kiln_tree_node *child[2], *parent;
	__u64 red;
};

struct kiln_tree {
	struct kiln_tree_node *root;
	__u64 count;
};

/* The side on which a key is below a node. On random keys a branch would be predicted wrongly half the time. */
static __always_inline __u64 kiln_tree_way(struct kiln_tree_node *node, __u64 key)
{
	return KILN_SELECT(node->key, <, key, 1, 0);
}

/* The node of a key; NULL when there is none. */
KILN_FUNCTION struct kiln_tree_node *kiln_tree_find(struct kiln_tree *tree, __u64 key)
{
	struct kiln_tree_node *node = tree->root;

	while (node && node->key != key)
		node = node->child[kiln_tree_way(node, key)];
	return node;
}

static __always_inline int kiln_tree_is_red(struct kiln_tree_node *node)
{
	return node && node->red;
}

static __always_inline int kiln_tree_side(struct kiln_tree_node *node)
{
	return node->parent->child[1] == node;
}

/* Puts `new` (or nothing) where `old` is. */
static __always_inline void kiln_tree_replace(struct kiln_tree *tree, struct kiln_tree_node *old,
					      struct kiln_tree_node *new)
{
	if (old->parent)
		old->parent->child[kiln_tree_side(old)] = new;
	else
		tree->root = new;
	if (new)
		new->parent = old->parent;
}

/* Moves a node down to `side`; its child of the other side takes its place. */
KILN_FUNCTION void kiln_tree_rotate(struct kiln_tree *tree, struct kiln_tree_node *node, __u32 side)
{
	struct kiln_tree_node *up, *between;

	side &= 1;
	up = node->child[side ^ 1];
	between = up->child[side];
	kiln_tree_replace(tree, node, up);
	up->child[side] = node;
	node->parent = up;
	node->child[side ^ 1] = between;
	if (between)
		between->parent = node;
}

/* A red node may have a red parent: recolours and rotates upwards until none has. */
KILN_FUNCTION void kiln_tree_inserted(struct kiln_tree *tree, struct kiln_tree_node *node)
{
	while (kiln_tree_is_red(node->parent)) {
		struct kiln_tree_node *parent = node->parent, *above = parent->parent;
		__u32 side = kiln_tree_side(parent);
		struct kiln_tree_node *uncle = above->child[side ^ 1];

		if (kiln_tree_is_red(uncle)) {
			parent->red = uncle->red = 0;
			above->red = 1;
			node = above;
			continue;
		}
		if (kiln_tree_side(node) != side) {
			kiln_tree_rotate(tree, parent, side);
			parent = node;
		}
		parent->red = 0;
		above->red = 1;
		kiln_tree_rotate(tree, above, side ^ 1);
		break;
	}
	tree->root->red = 0;
}

/* Sets a key's value: 1 for a new key, 0 for a known one, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_tree_set(struct kiln_tree *tree, __u64 key, __u64 value)
{
	struct kiln_tree_node *parent = 0, *node = tree->root;

	while (node) {
		if (node->key == key) {
			node->value = value;
			return 0;
		}
		parent = node;
		node = node->child[kiln_tree_way(node, key)];
	}
	node = kiln_malloc(sizeof(*node));
	if (!node)
		return -1;
	node->key = key;
	node->value = value;
	node->child[0] = node->child[1] = 0;
	node->parent = parent;
	node->red = 1;
	if (parent)
		parent->child[kiln_tree_way(parent, key)] = node;
	else
		tree->root = node;
	kiln_tree_inserted(tree, node);
	tree->count++;
	return 1;
}

/* Paths through `parent`'s `side` lack one black node. */
KILN_FUNCTION void kiln_tree_removed(struct kiln_tree *tree, struct kiln_tree_node *parent, __u32 side)
{
	while (parent) {
		struct kiln_tree_node *sibling, *node;

		side &= 1;
		node = parent->child[side];
		if (kiln_tree_is_red(node)) {
			node->red = 0;
			return;
		}
		sibling = parent->child[side ^ 1];
		if (!sibling)
			return; /* cannot be in a tree that was not corrupted */
		if (sibling->red) {
			sibling->red = 0;
			parent->red = 1;
			kiln_tree_rotate(tree, parent, side);
			continue;
		}
		if (!kiln_tree_is_red(sibling->child[0]) && !kiln_tree_is_red(sibling->child[1])) {
			sibling->red = 1;
			node = parent;
			if (node->red) {
				node->red = 0;
				return;
			}
			parent = node->parent;
			if (parent)
				side = kiln_tree_side(node);
			continue;
		}
		if (!kiln_tree_is_red(sibling->child[side ^ 1])) {
			sibling->child[side]->red = 0;
			sibling->red = 1;
			kiln_tree_rotate(tree, sibling, side ^ 1);
			sibling = parent->child[side ^ 1];
		}
		sibling->red = parent->red;
		parent->red = 0;
		sibling->child[side ^ 1]->red = 0;
		kiln_tree_rotate(tree, parent, side);
		return;
	}
}

/* Removes a key. Returns whether it was there. */
KILN_FUNCTION int kiln_tree_remove(struct kiln_tree *tree, __u64 key)
{
	struct kiln_tree_node *node = kiln_tree_find(tree, key), *child, *parent;
	__u32 side;

	if (!node)
		return 0;
	if (node->child[0] && node->child[1]) {
		/* The next key moves here, and its node, which has no left child, goes instead. */
		struct kiln_tree_node *next = node->child[1];

		while (next->child[0])
			next = next->child[0];
		node->key = next->key;
		node->value = next->value;
		node = next;
	}
	child = node->child[0] ? node->child[0] : node->child[1];
	parent = node->parent;
	side = parent ? kiln_tree_side(node) : 0;
	kiln_tree_replace(tree, node, child);
	if (!node->red) {
		if (parent)
			kiln_tree_removed(tree, parent, side);
		else if (child)
			child->red = 0;
	}
	tree->count--;
	kiln_free(node);
	return 1;
}

#endif
