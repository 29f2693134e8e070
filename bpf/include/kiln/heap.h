/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A heap for BPF programs: plain pointers, plain loops, malloc and locks.
 *
 *	#include <kiln/heap.h>
 *
 *	struct elem { int key, value; struct elem *next; };
 *	kiln_heap(1 << 20);                 // bytes; one heap per object on Linux
 *	struct elem *head;
 *
 *	for (struct elem *e = head; e; e = e->next)
 *		...
 *
 * Compile with `kiln cc`, or with clang and then `kiln sandbox`: the kernel refuses the object as clang writes it. The
 * heap is a BPF arena (Linux 6.9). Pointers are addresses of the process that loads the object, where the heap is mapped
 * too, so that process can follow them.
 */
#ifndef KILN_HEAP_H
#define KILN_HEAP_H

#ifdef __bpf__
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#else
/* The same source as native code: tests compare it with the sandboxed program. */
#include <linux/types.h>
#include <stddef.h>
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define SEC(name)
#endif

#define KILN_PAGE_BYTES 4096
/* Subprograms: the kernel verifies each once per call chain, and their frames are separate. */
#define KILN_FUNCTION static __attribute__((noinline, unused))
/* Functions that the kernel verifies once per program, however often they are called. Arguments and results are numbers. */
#ifdef __bpf__
#define KILN_GLOBAL __attribute__((noinline, weak))
#else
#define KILN_GLOBAL KILN_FUNCTION
#endif

/* Cancellation points that are counted one by one; the last counter is for all others. */
#define KILN_POINTS 126
/* CPUs whose tail calls do not share entries with another CPU's. */
#define KILN_HANDOVERS 64

/* What programs share with user space about cancellation; `kiln sandbox` adds the code that uses it. */
struct kiln_cancellation {
	__u64 terminate; /* set by user space: cancels runs that loop under a kernel lock */
	__u64 runs; /* how many runs were cancelled, if there is a limit to them (--detach-after) */
	__u64 points[KILN_POINTS]; /* how many were at each point */
	/*
	 * Of each CPU: the deadlines that tail calls give to the next program; `lent` of the first two entries, the deadline that a call
	 * gives to a global function with five arguments, and the task that calls. User space leaves them alone.
	 */
	struct {
		__u64 context, deadline, time, lent;
	} handovers[KILN_HANDOVERS][4];
};

#ifdef __bpf__
/* Not static: then libbpf lets user space map the section, as `bss_kiln` of a skeleton. Weak: objects may be linked. */
volatile struct kiln_cancellation kiln_cancellation
	__attribute__((section(".bss.kiln"), used, weak, aligned(8)));

/*
 * Declares another heap, with a name of its own. Linux allows an object one; this is for `kiln sandbox --target vm`, where heaps
 * may also have more than 4 GiB.
 */
#define kiln_another_heap(name, bytes)                                                             \
	struct {                                                                                   \
		__uint(type, 33); /* BPF_MAP_TYPE_ARENA, which older headers lack */               \
		__uint(map_flags, 1u << 10); /* BPF_F_MMAPABLE */                                  \
		__uint(max_entries, ((bytes) + KILN_PAGE_BYTES - 1ull) / KILN_PAGE_BYTES);         \
	} name SEC(".maps")
/* Declares the object's heap. `bytes` is rounded up to whole pages; at most 4 GiB on Linux. */
#define kiln_heap(bytes) kiln_another_heap(kiln_heap_map, bytes)
#define KILN_IN_HEAP __attribute__((address_space(1)))
#else
#define kiln_heap(bytes) struct kiln_heap_declared
#define kiln_another_heap(name, bytes) struct kiln_heap_declared
#define KILN_IN_HEAP
#endif

/*
 * A lock, shared with user space. Several may be held at once. It is a test-and-set lock: put it into a global variable or
 * into the heap. Waiting for it is a loop like any other: the program is cancelled when its time is up.
 *
 *	bits 0 to 21	1 if a program holds it, or the id of the thread of user space that does; 0 if nobody
 *	bits 22 to 29	0; or when a program first waited long for this holder; or 255: the lock is abandoned
 *	bit 31		user space holds it
 *
 * A lock is abandoned if nobody has released it for one to two KILN_LOCK_PATIENCE_NS since then, over all runs. Runs that wait for such
 * a lock are cancelled after some microseconds, not at the end of their quantum. Who releases it ends that.
 */
typedef struct {
	__u32 held;
} kiln_spinlock_t;

#define KILN_WAIT_SHIFT 22
#define KILN_WAIT_MASK (0xffu << KILN_WAIT_SHIFT)
#define KILN_ABANDONED 255

#ifdef __bpf__
/* A define of the program's may say more: user space may be without a CPU for longer while it holds a lock. */
#ifndef KILN_LOCK_PATIENCE_NS
#define KILN_LOCK_PATIENCE_NS 4000000ull
#endif

/* Ends the run like a deadline that has passed: `kiln sandbox` knows a loop that does nothing and never ends. */
static __always_inline void kiln_cancel(void)
{
	for (;;)
		;
}

/*
 * What a lock's value is when a run has waited for it: notes since when, or that the lock is abandoned. Ends the run if it already was. It
 * does not touch the lock itself, which may be a variable or in the heap.
 */
KILN_FUNCTION __u32 kiln_waited(__u32 held)
{
	__u32 now, noted = (held & KILN_WAIT_MASK) >> KILN_WAIT_SHIFT;

	if (noted == KILN_ABANDONED)
		kiln_cancel();
	/* 1 to 254, over and over. */
	now = bpf_ktime_get_ns() / KILN_LOCK_PATIENCE_NS % 254 + 1;
	if (!noted)
		noted = now;
	else if ((now + 254 - noted) % 254 >= 2)
		noted = KILN_ABANDONED;
	return (held & ~KILN_WAIT_MASK) | noted << KILN_WAIT_SHIFT;
}

static __always_inline void kiln_spin_lock(kiln_spinlock_t *lock)
{
	__u32 held;

	for (__u32 tries = 1; (held = __sync_val_compare_and_swap(&lock->held, 0, 1)); tries++)
		if (!(tries & 1023))
			__sync_val_compare_and_swap(&lock->held, held, kiln_waited(held));
}
#else
static __always_inline void kiln_spin_lock(kiln_spinlock_t *lock)
{
	while (__sync_val_compare_and_swap(&lock->held, 0, 1))
		;
}
#endif

static __always_inline void kiln_spin_unlock(kiln_spinlock_t *lock)
{
	__sync_lock_test_and_set(&lock->held, 0);
}

#include <kiln/malloc.h>

#endif
