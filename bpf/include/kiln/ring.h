/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A ring of 64-bit values, first in, first out, for one writer and one reader at a time, which may be on two CPUs. */
#ifndef KILN_RING_H
#define KILN_RING_H

#include <kiln/heap.h>

struct kiln_ring {
	__u64 *slots;
	__u64 mask; /* slots - 1 */
	__u64 head; /* values ever pushed: only the writer changes it */
	__u64 tail; /* values ever popped: only the reader changes it */
};

/* Makes an empty ring. `slots` is a power of two, at most 65536; 0 on success, -1 when memory is exhausted. */
KILN_FUNCTION int kiln_ring_create(struct kiln_ring *ring, __u64 slots)
{
	ring->slots = kiln_malloc(slots * sizeof(*ring->slots));
	if (!ring->slots)
		return -1;
	ring->mask = slots - 1;
	ring->head = ring->tail = 0;
	return 0;
}

static __always_inline __u64 kiln_ring_count(struct kiln_ring *ring)
{
	return *(volatile __u64 *)&ring->head - *(volatile __u64 *)&ring->tail;
}

/* Puts a value behind all others: 1, or -1 when the ring is full. */
KILN_FUNCTION int kiln_ring_push(struct kiln_ring *ring, __u64 value)
{
	__u64 head = ring->head;

	if (kiln_ring_count(ring) > ring->mask)
		return -1;
	*(volatile __u64 *)&ring->slots[head & ring->mask] = value;
	/* An exchange, so that the reader sees the value before the count. */
	__sync_lock_test_and_set(&ring->head, head + 1);
	return 1;
}

/* Takes the first value: 1, or 0 when the ring is empty. */
static __always_inline int kiln_ring_pop(struct kiln_ring *ring, __u64 *value)
{
	__u64 tail = ring->tail;

	if (!kiln_ring_count(ring))
		return 0;
	*value = *(volatile __u64 *)&ring->slots[tail & ring->mask];
	__sync_lock_test_and_set(&ring->tail, tail + 1);
	return 1;
}

#endif
