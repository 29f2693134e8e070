/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Racers on one set of structures: programs on two CPUs and a process of user space run the same source, each on its own. Each
 * racer owns a quarter of the keys and knows what it has stored under them. It also reads the others' keys, whose values must
 * belong to their keys. In the end, `check` counts everything.
 */
#ifndef RACES_H
#define RACES_H

#include <kiln/bloom.h>
#include <kiln/bptree.h>
#include <kiln/clock.h>
#include <kiln/cuckoo.h>
#include <kiln/hash.h>
#include <kiln/list.h>
#include <kiln/rbtree.h>
#include <kiln/ring.h>
#include <kiln/shared.h>
#include <kiln/skiplist.h>
#include <kiln/sketch.h>
#include <kiln/wheel.h>

#ifdef RACES_UNLOCKED
/* The canary: no locks, so the races must be found. */
#define kiln_spin_lock(lock) ((void)(lock))
#define kiln_spin_unlock(lock) ((void)(lock))
#endif

#define RACERS 3
#define OWN_KEYS 32
#define BLOCKS 16
/* A Bloom filter of 65,536 words says little of more keys. */
#define BLOOM_KEYS 20000

enum structure { HASH, TREE, SKIP, LIST, BP, CLOCK, CUCKOO, MAPS };

KILN_FUNCTION int list_set(struct kiln_list *list, __u64 key, __u64 value)
{
	struct kiln_list_node *node = kiln_list_find(list, key);

	if (!node)
		return kiln_list_push(list, key, value);
	node->value = value;
	return 0;
}

KILN_SHARED_MAP(hash, entry)
KILN_SHARED_MAP(tree, entry)
KILN_SHARED_MAP(skip, entry)
#define kiln_list_set list_set
KILN_SHARED_MAP(list, entry)
KILN_SHARED_MAP(bp, place)
KILN_SHARED_MAP(clock, entry)
KILN_SHARED(cuckoo)
KILN_SHARED(wheel)
KILN_SHARED(countmin)
KILN_SHARED(count)

struct racer {
	__u64 random, steps, errors;
	__u64 first_error; /* 1 + the structure and, from bit 8 on, what was wrong */
	__u64 values[MAPS][OWN_KEYS]; /* 0: not there */
	__u64 pushed, popped; /* of rings */
	__u64 added, due; /* timers */
	__u64 bloom; /* keys added */
	__u64 counted;
	__u64 *blocks[BLOCKS];
};

struct world {
	__u64 stop; /* set by user space */
	struct kiln_shared_hash hash;
	struct kiln_shared_tree tree;
	struct kiln_shared_skip skip;
	struct kiln_shared_list list;
	struct kiln_shared_bp bp;
	struct kiln_shared_clock clock;
	struct kiln_shared_cuckoo cuckoo;
	struct kiln_shared_wheel wheel;
	struct kiln_shared_countmin *countmin;
	struct kiln_shared_count *count;
	struct kiln_bloom bloom;
	struct kiln_ring rings[RACERS]; /* racer n pushes into ring n and pops from the one before */
	struct racer racers[RACERS];
	__u64 racing; /* those who take part: a ring without a reader fills up */
};

struct request {
	struct world *world;
	__u64 times, racer;
	__u64 result; /* out: steps done; for `check`, 0 or what is wrong */
};

static __always_inline __u64 racer_random(struct racer *racer)
{
	__u64 random = racer->random;

	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	racer->random = random;
	return random >> 16;
}

static __always_inline void wrong(struct racer *racer, __u64 structure, __u64 what)
{
	if (!racer->errors)
		racer->first_error = (structure + 1) | what << 8;
	racer->errors++;
}

/* One of the four shares of the keys is nobody's. */
static __always_inline __u64 key_of(__u64 own, __u64 racer)
{
	return own << 2 | racer;
}

#define RACE_MAP(name, at)                                                                         \
	KILN_FUNCTION int step_##name(struct world *world, struct racer *racer, __u64 me)          \
	{                                                                                          \
		__u64 random = racer_random(racer), own = random & (OWN_KEYS - 1);                 \
		__u64 key = key_of(own, me), known = racer->values[at][own], value;                \
                                                                                                   \
		if (random >> 8 & 1) {                                                             \
			key = key_of(own, random >> 10 & 3);                                       \
			value = kiln_shared_##name##_get(&world->name, key, 0);                    \
			if ((key & 3) == me ? value != known : value && value >> 32 != key + 1)    \
				wrong(racer, at, 1);                                               \
		} else if (random >> 9 & 1) {                                                      \
			value = (key + 1) << 32 | (racer->steps & 0xffffffff);                     \
			if (kiln_shared_##name##_set(&world->name, key, value) != !known)          \
				wrong(racer, at, 2);                                               \
			racer->values[at][own] = value;                                            \
		} else {                                                                           \
			if (kiln_shared_##name##_remove(&world->name, key) != !!known)             \
				wrong(racer, at, 3);                                               \
			racer->values[at][own] = 0;                                                \
		}                                                                                  \
		return 0;                                                                          \
	}

RACE_MAP(hash, HASH)
RACE_MAP(tree, TREE)
RACE_MAP(skip, SKIP)
RACE_MAP(list, LIST)
RACE_MAP(bp, BP)
RACE_MAP(clock, CLOCK)

KILN_FUNCTION int step_cuckoo(struct world *world, struct racer *racer, __u64 me)
{
	__u64 random = racer_random(racer), own = random & (OWN_KEYS - 1), key = key_of(own, me);
	struct kiln_shared_cuckoo *cuckoo = &world->cuckoo;
	__u64 known = racer->values[CUCKOO][own];

	if (random >> 8 & 1) {
		if (!kiln_shared_call(cuckoo, kiln_cuckoo_has(&cuckoo->own, key)) && known)
			wrong(racer, CUCKOO, 1);
	} else if (random >> 9 & 1) {
		if (!known && kiln_shared_call(cuckoo, kiln_cuckoo_add(&cuckoo->own, key)) != 1)
			wrong(racer, CUCKOO, 2);
		racer->values[CUCKOO][own] = 1;
	} else {
		if (known && !kiln_shared_call(cuckoo, kiln_cuckoo_remove(&cuckoo->own, key)))
			wrong(racer, CUCKOO, 3);
		racer->values[CUCKOO][own] = 0;
	}
	return 0;
}

/* Each racer pushes 1, 2, 3 and so on; the next one pops them in this order. No lock. */
KILN_FUNCTION int step_ring(struct world *world, struct racer *racer, __u64 me)
{
	__u64 before = me ? me - 1 : world->racing - 1, value = 0;
	struct kiln_ring *from = &world->rings[before < RACERS ? before : 0], *to = &world->rings[me];

	if (kiln_ring_count(to) > to->mask + 1 || kiln_ring_count(from) > from->mask + 1)
		wrong(racer, MAPS, 1);
	if (kiln_ring_push(to, racer->pushed + 1) == 1)
		racer->pushed++;
	if (kiln_ring_pop(from, &value)) {
		racer->popped++;
		if (value != racer->popped)
			wrong(racer, MAPS, 2);
	}
	return 0;
}

static __always_inline __u64 bloom_key(__u64 me, __u64 at)
{
	return me << 40 | at;
}

/* A key that was added is there at once, and stays. No lock. */
KILN_FUNCTION int step_bloom(struct world *world, struct racer *racer, __u64 me)
{
	__u64 random = racer_random(racer);

	if (racer->bloom < BLOOM_KEYS && random & 1) {
		kiln_bloom_add(&world->bloom, bloom_key(me, racer->bloom));
		racer->bloom++;
	}
	if (racer->bloom && !kiln_bloom_has(&world->bloom, bloom_key(me, (random >> 8) % racer->bloom)))
		wrong(racer, MAPS + 1, 1);
	return 0;
}

/* Timers are started, and those due are taken out; none is early, none is lost. */
KILN_FUNCTION int step_wheel(struct world *world, struct racer *racer, __u64 me)
{
	__u64 random = racer_random(racer), now;
	struct kiln_shared_wheel *wheel = &world->wheel;
	struct kiln_timer *timer;

	kiln_spin_lock(&wheel->lock);
	now = wheel->own.now;
	if (random & 1) {
		timer = kiln_wheel_add(&wheel->own, now + (random >> 8 & 127), now);
		kiln_spin_unlock(&wheel->lock);
		racer->added += !!timer;
		return 0;
	}
	timer = kiln_wheel_due(&wheel->own, now + 8);
	kiln_spin_unlock(&wheel->lock);
	if (!timer)
		return 0;
	racer->due++;
	if (timer->tick > now + 8 || timer->key > timer->tick)
		wrong(racer, MAPS + 2, 1);
	kiln_free(timer);
	return 0;
}

/* All racers count one key, in both sketches. */
#define COUNTED_KEY 7

KILN_FUNCTION int step_countmin(struct world *world, struct racer *racer, __u64 me)
{
	struct kiln_shared_countmin *countmin = world->countmin;
	struct kiln_shared_count *count = world->count;

	kiln_shared_call(countmin, kiln_countmin_add(&countmin->own, COUNTED_KEY, 1));
	kiln_shared_call(count, kiln_count_add(&count->own, COUNTED_KEY, 1));
	racer->counted++;
	if (kiln_shared_call(countmin, kiln_countmin_get(&countmin->own, COUNTED_KEY)) < (__u32)racer->counted)
		wrong(racer, MAPS + 3, 1);
	return 0;
}

/* Blocks are written when they are allocated and read before they are freed: no block has two owners. No lock. */
KILN_FUNCTION int step_malloc(struct world *world, struct racer *racer, __u64 me)
{
	__u64 random = racer_random(racer), at = random & (BLOCKS - 1), words = 1 + (random >> 8 & 31);
	__u64 *block = racer->blocks[at];

	if (!block) {
		block = kiln_malloc(8 * words);
		if (!block)
			return 0;
		block[0] = me << 32 | words;
		if (words > 1)
			block[words - 1] = (__u64)(unsigned long)block;
		racer->blocks[at] = block;
		return 0;
	}
	words = block[0] & 0xffffffff;
	if (block[0] >> 32 != me || words > 32 || !words)
		wrong(racer, MAPS + 4, 1);
	else if (words > 1 && block[words - 1] != (__u64)(unsigned long)block)
		wrong(racer, MAPS + 4, 2);
	racer->blocks[at] = 0;
	kiln_free(block);
	return 0;
}

#endif
