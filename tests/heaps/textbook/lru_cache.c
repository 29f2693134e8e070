/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A cache that evicts what was used least recently: a hash table and a list. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define BUCKETS 16
#define MOST 20
struct item {
	struct item *chain, *newer, *older;
	int key, value;
};
struct item *table[BUCKETS], *newest, *oldest;
int count;

static void unlink_item(struct item *i)
{
	if (i->newer)
		i->newer->older = i->older;
	else
		newest = i->older;
	if (i->older)
		i->older->newer = i->newer;
	else
		oldest = i->newer;
}

static void put_first(struct item *i)
{
	i->newer = 0;
	i->older = newest;
	if (newest)
		newest->newer = i;
	else
		oldest = i;
	newest = i;
}

static void evict(void)
{
	struct item *gone = oldest, *i;
	unsigned bucket = (unsigned)gone->key % BUCKETS;

	unlink_item(gone);
	if (table[bucket] == gone) {
		table[bucket] = gone->chain;
	} else {
		for (i = table[bucket]; i; i = i->chain)
			if (i->chain == gone) {
				i->chain = gone->chain;
				break;
			}
	}
	free(gone);
	count--;
}

static long step(int what, int key, int value)
{
	unsigned bucket = (unsigned)key % BUCKETS;
	struct item *i = table[bucket];

	while (i && i->key != key)
		i = i->chain;
	if (i) {
		unlink_item(i);
		put_first(i);
		if (what == 1)
			i->value = value;
		return i->value;
	}
	if (what != 1)
		return -1;
	if (count == MOST)
		evict();
	i = malloc(sizeof(*i));
	if (!i)
		return -2;
	i->key = key;
	i->value = value;
	i->chain = table[bucket];
	table[bucket] = i;
	put_first(i);
	return ++count;
}

#include "run.h"
