/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One operation on one structure: the same in a sandboxed program and in native C. */
#include <kiln/hash.h>
#include <kiln/list.h>
#include <kiln/rbtree.h>
#include <kiln/skiplist.h>
#include <kiln/sketch.h>

#include "order.h"

static __always_inline struct kiln_hash *create_hash(void)
{
	struct kiln_hash *hash = zeroed(sizeof(*hash));

	return hash && !kiln_hash_create(hash, 1024) ? hash : 0;
}

static __always_inline struct kiln_list *create_list(void)
{
	return zeroed(sizeof(struct kiln_list));
}

static __always_inline struct kiln_tree *create_tree(void)
{
	return zeroed(sizeof(struct kiln_tree));
}

static __always_inline struct kiln_skip *create_skip(void)
{
	struct kiln_skip *skip = zeroed(sizeof(*skip));

	return skip && !kiln_skip_create(skip, 88172645463325252ull) ? skip : 0;
}

static __always_inline struct kiln_countmin *create_countmin(void)
{
	return zeroed(sizeof(struct kiln_countmin));
}

static __always_inline struct kiln_count *create_count(void)
{
	return zeroed(sizeof(struct kiln_count));
}

static __always_inline void perform_hash(struct kiln_hash *hash, struct order *order)
{
	struct kiln_hash_entry *entry;

	if (order->operation == 1) {
		order->result = kiln_hash_set(hash, order->key, order->value);
	} else if (order->operation == 2) {
		order->result = kiln_hash_remove(hash, order->key);
	} else {
		entry = kiln_hash_find(hash, order->key);
		order->found = entry ? entry->value : 0;
	}
}

static __always_inline void perform_list(struct kiln_list *list, struct order *order)
{
	struct kiln_list_node *node;

	if (order->operation == 1) {
		order->result = kiln_list_push(list, order->key, order->value);
	} else if (order->operation == 2) {
		order->result = kiln_list_remove(list, order->key);
	} else {
		node = kiln_list_find(list, order->key);
		order->found = node ? node->value : 0;
	}
}

static __always_inline void perform_tree(struct kiln_tree *tree, struct order *order)
{
	struct kiln_tree_node *node;

	if (order->operation == 1) {
		order->result = kiln_tree_set(tree, order->key, order->value);
	} else if (order->operation == 2) {
		order->result = kiln_tree_remove(tree, order->key);
	} else {
		node = kiln_tree_find(tree, order->key);
		order->found = node ? node->value : 0;
	}
}

static __always_inline void perform_skip(struct kiln_skip *skip, struct order *order)
{
	struct kiln_skip_node *node;

	if (order->operation == 1) {
		order->result = kiln_skip_set(skip, order->key, order->value);
	} else if (order->operation == 2) {
		order->result = kiln_skip_remove(skip, order->key);
	} else {
		node = kiln_skip_find(skip, order->key);
		order->found = node ? node->value : 0;
	}
}

static __always_inline void perform_countmin(struct kiln_countmin *sketch, struct order *order)
{
	if (order->operation)
		kiln_countmin_add(sketch, order->key, order->value);
	else
		order->found = kiln_countmin_get(sketch, order->key);
}

static __always_inline void perform_count(struct kiln_count *sketch, struct order *order)
{
	if (order->operation)
		kiln_count_add(sketch, order->key, order->value);
	else
		order->found = kiln_count_get(sketch, order->key);
}
