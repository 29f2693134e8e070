/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One operation on one of the later structures; see structures.h. */
#include <kiln/bloom.h>
#include <kiln/bptree.h>
#include <kiln/clock.h>
#include <kiln/cuckoo.h>
#include <kiln/ring.h>
#include <kiln/wheel.h>

#include "order.h"

static __always_inline struct kiln_bp *create_bp(void)
{
	return zeroed(sizeof(struct kiln_bp));
}

static __always_inline struct kiln_clock *create_clock(void)
{
	struct kiln_clock *clock = zeroed(sizeof(*clock));

	return clock && !kiln_clock_create(clock, 64) ? clock : 0;
}

static __always_inline struct kiln_wheel *create_wheel(void)
{
	struct kiln_wheel *wheel = zeroed(sizeof(*wheel));

	return wheel && !kiln_wheel_create(wheel, 64, 0) ? wheel : 0;
}

static __always_inline struct kiln_ring *create_ring(void)
{
	struct kiln_ring *ring = zeroed(sizeof(*ring));

	return ring && !kiln_ring_create(ring, 32) ? ring : 0;
}

static __always_inline struct kiln_bloom *create_bloom(void)
{
	struct kiln_bloom *bloom = zeroed(sizeof(*bloom));

	return bloom && !kiln_bloom_create(bloom, 16) ? bloom : 0;
}

static __always_inline struct kiln_cuckoo *create_cuckoo(void)
{
	struct kiln_cuckoo *cuckoo = zeroed(sizeof(*cuckoo));

	return cuckoo && !kiln_cuckoo_create(cuckoo, 32) ? cuckoo : 0;
}

static __always_inline void perform_bp(struct kiln_bp *tree, struct order *order)
{
	__u64 *value;

	if (order->operation == 1) {
		order->result = kiln_bp_set(tree, order->key, order->value);
	} else if (order->operation == 2) {
		order->result = kiln_bp_remove(tree, order->key);
	} else {
		value = kiln_bp_find(tree, order->key);
		order->found = value ? *value : 0;
	}
}

static __always_inline void perform_clock(struct kiln_clock *clock, struct order *order)
{
	struct kiln_clock_entry *entry;

	if (order->operation == 1) {
		order->result = kiln_clock_set(clock, order->key, order->value) + clock->evicted * 4;
	} else if (order->operation == 2) {
		order->result = kiln_clock_remove(clock, order->key);
	} else {
		entry = kiln_clock_find(clock, order->key);
		order->found = entry ? entry->value : 0;
	}
}

/* Starts a timer; lets up to 15 ticks pass; starts and stops one. */
static __always_inline void perform_wheel(struct kiln_wheel *wheel, struct order *order)
{
	struct kiln_timer *timer;
	__u64 now = wheel->now;

	if (order->operation == 1) {
		order->result = !!kiln_wheel_add(wheel, now + order->value % 200, order->key);
	} else if (order->operation == 2) {
		timer = kiln_wheel_add(wheel, now + order->value, order->key);
		if (timer) {
			kiln_wheel_stop(wheel, timer);
			kiln_free(timer);
		}
	} else {
		now += order->value & 15;
		while ((timer = kiln_wheel_due(wheel, now))) {
			order->result++;
			order->found = order->found * 31 + timer->key;
			kiln_free(timer);
		}
	}
}

static __always_inline void perform_ring(struct kiln_ring *ring, struct order *order)
{
	__u64 value = 0;

	if (order->operation == 1) {
		order->result = kiln_ring_push(ring, order->value);
	} else if (order->operation == 2) {
		order->result = kiln_ring_pop(ring, &value);
		order->found = value;
	} else {
		order->found = kiln_ring_count(ring);
	}
}

static __always_inline void perform_bloom(struct kiln_bloom *bloom, struct order *order)
{
	if (order->operation == 1)
		kiln_bloom_add(bloom, order->key);
	else
		order->found = kiln_bloom_has(bloom, order->key + order->value);
}

static __always_inline void perform_cuckoo(struct kiln_cuckoo *cuckoo, struct order *order)
{
	if (order->operation == 1)
		order->result = kiln_cuckoo_add(cuckoo, order->key);
	else if (order->operation == 2)
		order->result = kiln_cuckoo_remove(cuckoo, order->key);
	else
		order->found = kiln_cuckoo_has(cuckoo, order->key);
}
