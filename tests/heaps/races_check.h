/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What must hold of the structures of races.h: while racers run, with the lock, and in the end, when all have stopped. */
#ifndef RACES_CHECK_H
#define RACES_CHECK_H

#include "races.h"

/* The number of things that are wrong in a structure that nobody else changes meanwhile. */
KILN_FUNCTION __u64 sound_hash(struct kiln_hash *hash)
{
	__u64 wrongs = 0, count = 0;

	for (__u64 at = 0; at <= *(volatile __u64 *)&hash->mask; at++)
		for (struct kiln_hash_entry *entry = hash->buckets[at]; entry; entry = entry->next) {
			wrongs += kiln_hash_bucket(hash, entry->key) != &hash->buckets[at];
			wrongs += entry->value >> 32 != entry->key + 1;
			count++;
		}
	return wrongs + (count != hash->count);
}

KILN_FUNCTION __u64 sound_list(struct kiln_list *list)
{
	__u64 wrongs = 0, count = 0;

	for (struct kiln_list_node *node = list->first; node; node = node->next) {
		wrongs += node->next && node->next->previous != node;
		wrongs += node->value >> 32 != node->key + 1;
		count++;
	}
	return wrongs + (count != list->count) + (list->first && list->first->previous);
}

KILN_FUNCTION __u64 tree_blacks(struct kiln_tree_node *node)
{
	__u64 blacks = 0;

	for (; node; node = node->parent)
		blacks += !node->red;
	return blacks;
}

/* In order: keys rise, children know their parents, no red node has a red child, all paths have as many black nodes. */
KILN_FUNCTION __u64 sound_tree(struct kiln_tree *tree)
{
	struct kiln_tree_node *node = tree->root, *from = 0;
	__u64 wrongs = 0, count = 0, last = 0, blacks = 0, own;

	while (node) {
		struct kiln_tree_node *next;

		if (from == node->parent && node->child[0]) {
			next = node->child[0];
		} else if (from != node->child[1] || !from) {
			/* Between its children. */
			wrongs += count && node->key <= last;
			wrongs += node->value >> 32 != node->key + 1;
			last = node->key;
			count++;
			if (!node->child[0] || !node->child[1]) {
				own = tree_blacks(node);
				wrongs += blacks && own != blacks;
				blacks = own;
			}
			next = node->child[1] ? node->child[1] : node->parent;
		} else {
			next = node->parent;
		}
		wrongs += node->red && node->parent && node->parent->red;
		wrongs += node->parent && node->parent->child[0] != node && node->parent->child[1] != node;
		from = node;
		node = next;
	}
	return wrongs + (count != tree->count);
}

KILN_FUNCTION __u64 sound_skip(struct kiln_skip *list)
{
	__u64 wrongs = 0, count = 0, last = 0;

	for (struct kiln_skip_node *node = list->head->next[0]; node; node = node->next[0]) {
		wrongs += count && node->key <= last;
		wrongs += node->value >> 32 != node->key + 1;
		last = node->key;
		count++;
	}
	return wrongs + (count != list->count);
}

KILN_FUNCTION __u64 sound_bp(struct kiln_bp *tree)
{
	__u64 wrongs = 0, count = 0, last = 0;

	for (struct kiln_bp_node *leaf = kiln_bp_leaf(tree, 0); leaf; leaf = leaf->next) {
		wrongs += !leaf->leaf || leaf->count > KILN_BP_KEYS;
		for (__u64 at = 0; at < *(volatile __u32 *)&leaf->count && at < KILN_BP_KEYS; at++) {
			wrongs += count && leaf->keys[at] <= last;
			wrongs += leaf->slots[at] >> 32 != leaf->keys[at] + 1;
			last = leaf->keys[at];
			count++;
		}
	}
	return wrongs + (count != tree->count);
}

KILN_FUNCTION __u64 sound_clock(struct kiln_clock *cache)
{
	__u64 wrongs = 0, count = 0;

	for (__u64 at = 0; at <= *(volatile __u64 *)&cache->mask; at++)
		for (struct kiln_clock_entry *entry = cache->buckets[at]; entry; entry = entry->next) {
			wrongs += kiln_clock_bucket(cache, entry->key) != &cache->buckets[at];
			count++;
		}
	for (struct kiln_clock_entry *entry = cache->free; entry; entry = entry->next)
		wrongs += count++ > cache->mask;
	return wrongs + (count != cache->mask + 1) + cache->evicted;
}

KILN_FUNCTION __u64 sound_wheel(struct kiln_wheel *wheel)
{
	__u64 wrongs = 0, count = 0;

	for (__u64 at = 0; at <= *(volatile __u64 *)&wheel->mask; at++)
		for (struct kiln_timer *timer = wheel->slots[at]; timer; timer = timer->next) {
			wrongs += (timer->tick & wheel->mask) != at || *timer->link != timer;
			count++;
		}
	return wrongs + (count != wheel->count);
}

/* Every key has the value that its owner knows, and there are no others. */
#define COUNT_MAP(name, at)                                                                        \
	KILN_FUNCTION __u64 count_##name(struct world *world)                                      \
	{                                                                                          \
		__u64 known = 0, wrongs = 0;                                                       \
                                                                                                   \
		for (__u64 me = 0; me < RACERS; me++)                                              \
			for (__u64 own = 0; own < OWN_KEYS; own++) {                               \
				__u64 value = world->racers[me].values[at][own];                   \
                                                                                                   \
				known += !!value;                                                  \
				wrongs += kiln_shared_##name##_get(&world->name, key_of(own, me), 0) != value; \
			}                                                                          \
		return wrongs + (world->name.own.count != known);                                  \
	}

COUNT_MAP(hash, HASH)
COUNT_MAP(tree, TREE)
COUNT_MAP(skip, SKIP)
COUNT_MAP(list, LIST)
COUNT_MAP(bp, BP)
COUNT_MAP(clock, CLOCK)

/* The same of the filter, which has no values. */
KILN_FUNCTION __u64 count_cuckoo(struct world *world)
{
	__u64 known = 0, wrongs = 0, end = world->racing;

	for (__u64 me = 0; me < end; me++)
		for (__u64 own = 0; own < OWN_KEYS; own++) {
			__u64 value = world->racers[me].values[CUCKOO][own];

			known += value;
			wrongs += value && !kiln_cuckoo_has(&world->cuckoo.own, key_of(own, me));
		}
	return wrongs + (world->cuckoo.own.count != known);
}

/* Timers that were started are in the wheel or were due; the counted key has its count; what was pushed was popped or waits. */
KILN_FUNCTION __u64 count_others(struct world *world)
{
	__u64 wrongs = 0, timers = world->wheel.own.count, counted = 0, end = world->racing;

	for (__u64 me = 0; me < end; me++) {
		struct racer *racer = &world->racers[me];
		struct kiln_ring *ring = &world->rings[me];
		__u64 after = me + 1 < end ? me + 1 : 0;

		timers += racer->due - racer->added;
		counted += racer->counted;
		wrongs += ring->head != racer->pushed;
		if (after < RACERS)
			wrongs += ring->tail != world->racers[after].popped;
	}
	wrongs += kiln_countmin_get(&world->countmin->own, COUNTED_KEY) != (__u32)counted;
	wrongs += kiln_count_get(&world->count->own, COUNTED_KEY) != (__s32)counted;
	return wrongs + !!timers;
}

KILN_FUNCTION __u64 count_bloom(struct world *world)
{
	__u64 wrongs = 0, end = world->racing;

	for (__u64 me = 0; me < end; me++)
		for (__u64 at = 0; at < world->racers[me].bloom; at++)
			wrongs += !kiln_bloom_has(&world->bloom, bloom_key(me, at));
	return wrongs;
}

/* All that is wrong when every racer has stopped. */
KILN_FUNCTION __u64 check_all(struct world *world)
{
	__u64 wrongs = 0;

	for (__u64 me = 0; me < world->racing; me++)
		wrongs += world->racers[me].errors;
	wrongs += count_hash(world) + count_tree(world) + count_skip(world) + count_list(world) + count_bp(world);
	wrongs += count_clock(world) + count_cuckoo(world) + count_others(world) + count_bloom(world);
	wrongs += sound_hash(&world->hash.own) + sound_list(&world->list.own) + sound_tree(&world->tree.own);
	wrongs += sound_skip(&world->skip.own) + sound_bp(&world->bp.own) + sound_clock(&world->clock.own);
	return wrongs + sound_wheel(&world->wheel.own);
}

#endif
