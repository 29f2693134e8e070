/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A B+ tree from 64-bit keys to 64-bit values, in the order of keys, for one writer at a time. Nodes have up to
 * KILN_BP_KEYS keys; leaves are linked. Full nodes are split on the way down. Nodes are not merged: a leaf whose
 * keys are all removed stays until keys come back to it.
 */
#ifndef KILN_BPTREE_H
#define KILN_BPTREE_H

#include <kiln/heap.h>

#define KILN_BP_KEYS 14

struct kiln_bp_node {
	__u32 leaf, count; /* keys */
	struct kiln_bp_node *next; /* of a leaf */
	__u64 keys[KILN_BP_KEYS];
	__u64 slots[KILN_BP_KEYS + 1]; /* values, or the addresses of children: keys[i] is the least key under slots[i + 1] */
};

struct kiln_bp {
	struct kiln_bp_node *root;
	__u64 count;
};

static __always_inline struct kiln_bp_node *kiln_bp_child(struct kiln_bp_node *node, __u64 at)
{
	return (struct kiln_bp_node *)(unsigned long)node->slots[at];
}

/* How many keys of a node are lower than `key`, or as low if `also_equal`. */
static __always_inline __u64 kiln_bp_below(struct kiln_bp_node *node, __u64 key, int also_equal)
{
	__u64 at = 0;

	while (at < *(volatile __u32 *)&node->count && (node->keys[at] < key || (also_equal && node->keys[at] == key)))
		at++;
	return at;
}

KILN_FUNCTION struct kiln_bp_node *kiln_bp_leaf(struct kiln_bp *tree, __u64 key)
{
	struct kiln_bp_node *node = tree->root;

	while (node && !node->leaf)
		node = kiln_bp_child(node, kiln_bp_below(node, key, 1));
	return node;
}

/* Where the value of a key is; NULL when it is not there. */
KILN_FUNCTION __u64 *kiln_bp_find(struct kiln_bp *tree, __u64 key)
{
	struct kiln_bp_node *leaf = kiln_bp_leaf(tree, key);
	__u64 at;

	if (!leaf)
		return 0;
	at = kiln_bp_below(leaf, key, 0);
	return at < leaf->count && leaf->keys[at] == key ? &leaf->slots[at] : 0;
}

/* Puts a key and a slot into a node that is not full: the slot of a leaf at the key's place, of another behind it. */
KILN_FUNCTION int kiln_bp_put(struct kiln_bp_node *node, __u64 key, __u64 slot)
{
	__u64 at = node->count;

	while (at && node->keys[at - 1] > key) {
		node->keys[at] = node->keys[at - 1];
		node->slots[at + !node->leaf] = node->slots[at - 1 + !node->leaf];
		at--;
	}
	node->keys[at] = key;
	node->slots[at + !node->leaf] = slot;
	node->count++;
	return 0;
}

/* Splits a full child of a node that is not full: 0, or -1 when memory is exhausted. */
KILN_FUNCTION int kiln_bp_split(struct kiln_bp_node *parent, struct kiln_bp_node *child)
{
	struct kiln_bp_node *right = kiln_malloc(sizeof(*right));
	__u64 half = KILN_BP_KEYS / 2, from = half + !child->leaf, middle = child->keys[half];
	__u64 at = from, end = *(volatile __u32 *)&child->count;

	if (!right)
		return -1;
	right->leaf = child->leaf;
	right->count = end - from;
	for (; at < end; at++) {
		right->keys[at - from] = child->keys[at];
		right->slots[at - from] = child->slots[at];
	}
	right->slots[at - from] = child->slots[at];
	child->count = half;
	if (child->leaf) {
		right->next = child->next;
		child->next = right;
	}
	return kiln_bp_put(parent, middle, (__u64)(unsigned long)right);
}

KILN_FUNCTION struct kiln_bp_node *kiln_bp_node(__u32 leaf)
{
	struct kiln_bp_node *node = kiln_malloc(sizeof(*node));

	if (node) {
		node->leaf = leaf;
		node->count = 0;
		node->next = 0;
	}
	return node;
}

/* The leaf for a new key, with room in it; NULL when memory is exhausted. */
KILN_FUNCTION struct kiln_bp_node *kiln_bp_room(struct kiln_bp *tree, __u64 key)
{
	struct kiln_bp_node *node = tree->root, *child;

	if (!node)
		return tree->root = kiln_bp_node(1);
	if (node->count == KILN_BP_KEYS) {
		child = node;
		node = kiln_bp_node(0);
		if (!node)
			return 0;
		node->slots[0] = (__u64)(unsigned long)child;
		if (kiln_bp_split(node, child)) {
			kiln_free(node);
			return 0;
		}
		tree->root = node;
	}
	while (!node->leaf) {
		child = kiln_bp_child(node, kiln_bp_below(node, key, 1));
		if (child->count == KILN_BP_KEYS) {
			if (kiln_bp_split(node, child))
				return 0;
			child = kiln_bp_child(node, kiln_bp_below(node, key, 1));
		}
		node = child;
	}
	return node;
}

/* Sets a key's value: 1 for a new key, 0 for a known one, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_bp_set(struct kiln_bp *tree, __u64 key, __u64 value)
{
	__u64 *known = kiln_bp_find(tree, key);
	struct kiln_bp_node *leaf;

	if (known) {
		*known = value;
		return 0;
	}
	leaf = kiln_bp_room(tree, key);
	if (!leaf)
		return -1;
	kiln_bp_put(leaf, key, value);
	tree->count++;
	return 1;
}

/* Removes a key. Returns whether it was there. */
KILN_FUNCTION int kiln_bp_remove(struct kiln_bp *tree, __u64 key)
{
	struct kiln_bp_node *leaf = kiln_bp_leaf(tree, key);
	__u64 at;

	if (!leaf)
		return 0;
	at = kiln_bp_below(leaf, key, 0);
	if (at >= leaf->count || leaf->keys[at] != key)
		return 0;
	for (; at + 1 < *(volatile __u32 *)&leaf->count; at++) {
		leaf->keys[at] = leaf->keys[at + 1];
		leaf->slots[at] = leaf->slots[at + 1];
	}
	leaf->count--;
	tree->count--;
	return 1;
}

#endif
