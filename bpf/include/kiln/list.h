/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A doubly linked list of keys and values, for one writer at a time. */
#ifndef KILN_LIST_H
#define KILN_LIST_H

#include <kiln/heap.h>

struct kiln_list_node {
	__u64 key, value;
	struct kiln_list_node *next, *previous;
};

struct kiln_list {
	struct kiln_list_node *first;
	__u64 count;
};

/* Puts a key in front, whether or not it is there already: 1, or -1 when memory is exhausted. */
KILN_FUNCTION int kiln_list_push(struct kiln_list *list, __u64 key, __u64 value)
{
	struct kiln_list_node *node = kiln_malloc(sizeof(*node)), *first = list->first;

	if (!node)
		return -1;
	node->key = key;
	node->value = value;
	node->next = first;
	node->previous = 0;
	if (first)
		first->previous = node;
	list->first = node;
	list->count++;
	return 1;
}

/* The first node of a key; NULL when there is none. */
KILN_FUNCTION struct kiln_list_node *kiln_list_find(struct kiln_list *list, __u64 key)
{
	struct kiln_list_node *node = list->first;

	while (node && node->key != key)
		node = node->next;
	return node;
}

/* Removes the first node of a key. Returns whether there was one. */
KILN_FUNCTION int kiln_list_remove(struct kiln_list *list, __u64 key)
{
	struct kiln_list_node *node = list->first;

	while (node && node->key != key)
		node = node->next;
	if (!node)
		return 0;
	if (node->previous)
		node->previous->next = node->next;
	else
		list->first = node->next;
	if (node->next)
		node->next->previous = node->previous;
	list->count--;
	kiln_free(node);
	return 1;
}

#endif
