/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A timer wheel, for one writer at a time. The author says what a tick is and calls kiln_wheel_due with the time; timers due are
 * given out one by one. A timer is in the slot of its tick, modulo the number of slots, so one that is further away than
 * the wheel is large is passed over in every turn.
 */
#ifndef KILN_WHEEL_H
#define KILN_WHEEL_H

#include <kiln/heap.h>

struct kiln_timer {
	__u64 tick, key;
	struct kiln_timer *next, **link; /* `link` points to what points to it */
};

struct kiln_wheel {
	struct kiln_timer **slots;
	__u64 mask; /* slots - 1 */
	__u64 now; /* all earlier ticks are done */
	__u64 count;
};

/* Makes an empty wheel that begins at a tick. `slots` is a power of two, at most 65536; -1 when memory is exhausted. */
KILN_FUNCTION int kiln_wheel_create(struct kiln_wheel *wheel, __u64 slots, __u64 now)
{
	wheel->slots = kiln_malloc(slots * sizeof(*wheel->slots));
	if (!wheel->slots)
		return -1;
	wheel->mask = slots - 1;
	wheel->now = now;
	wheel->count = 0;
	for (__u64 at = 0; at <= *(volatile __u64 *)&wheel->mask; at++)
		wheel->slots[at] = 0;
	return 0;
}

/* Starts a timer for a tick; one in the past is due at once. NULL when memory is exhausted. */
KILN_FUNCTION struct kiln_timer *kiln_wheel_add(struct kiln_wheel *wheel, __u64 tick, __u64 key)
{
	struct kiln_timer *timer = kiln_malloc(sizeof(*timer)), **slot;

	if (!timer)
		return 0;
	if (tick < wheel->now)
		tick = wheel->now;
	slot = &wheel->slots[tick & wheel->mask];
	timer->tick = tick;
	timer->key = key;
	timer->next = *slot;
	timer->link = slot;
	if (timer->next)
		timer->next->link = &timer->next;
	*slot = timer;
	wheel->count++;
	return timer;
}

/* Takes a timer out; the caller frees it with kiln_free. */
KILN_FUNCTION int kiln_wheel_stop(struct kiln_wheel *wheel, struct kiln_timer *timer)
{
	*timer->link = timer->next;
	if (timer->next)
		timer->next->link = timer->link;
	wheel->count--;
	return 0;
}

/* Takes out a timer that is due at a tick or before; NULL when there is none. The caller frees it with kiln_free. */
KILN_FUNCTION struct kiln_timer *kiln_wheel_due(struct kiln_wheel *wheel, __u64 now)
{
	for (; wheel->now <= now && wheel->count; wheel->now++) {
		struct kiln_timer *timer = wheel->slots[wheel->now & wheel->mask];

		while (timer && timer->tick > wheel->now)
			timer = timer->next;
		if (timer) {
			kiln_wheel_stop(wheel, timer);
			return timer;
		}
	}
	if (!wheel->count && wheel->now <= now)
		wheel->now = now + 1;
	return 0;
}

#endif
