/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A pool of objects of any size up to a maximum, each found by an id that the program chooses.
 *
 *	#define KILN_POOL_STORE KILN_POOL_ARRAY    // how objects are stored; see below
 *	#define KILN_POOL_ID struct key            // a type of 8 to 128 bytes, a multiple of 8, without padding
 *	#define KILN_POOL_OBJECTS 65536            // at most so many objects at once
 *	#define KILN_POOL_BYTES (32u << 20)        // memory for their contents
 *	#define KILN_POOL_MAX 1024                 // bytes of the largest object: a power of two from 128 to 1024
 *	#include <kiln/pool.h>
 *
 *	int kiln_pool_alloc(const KILN_POOL_ID *id, __u32 bytes);   // a new object of zeros
 *	int kiln_pool_free(const KILN_POOL_ID *id);
 *	int kiln_pool_resize(const KILN_POOL_ID *id, __u32 bytes);  // keeps what fits; what is new is zero
 *	int kiln_pool_read(const KILN_POOL_ID *id, void *to, const void *end);
 *	int kiln_pool_write(const KILN_POOL_ID *id, const void *from, const void *end, __u32 bytes, __u64 flags);
 *
 * A buffer is a packet's (`end` is its data_end) or memory of at least KILN_POOL_MAX bytes. `kiln_pool_read` returns how
 * many bytes the object has. `kiln_pool_write` replaces the whole object and its size; `flags` is BPF_ANY, BPF_NOEXIST or
 * BPF_EXIST, as for maps. Everything else returns 0, or a negative errno:
 *
 *	-ENOENT  there is no such object: it was never there, or it was freed (a second free, too)
 *	-EEXIST  there is one already
 *	-E2BIG   more than KILN_POOL_MAX bytes
 *	-ENOMEM  no room for another object or for its contents; nothing changed
 *	-ENOSPC  the buffer ends before the object does; nothing changed
 *	-EBUSY   others changed the object at each of KILN_POOL_TRIES tries
 *
 * Programs on all CPUs may use one pool at once. A read returns the contents of one write, never a mixture of two.
 *
 * Stores:
 *	KILN_POOL_HASH   Linux 5.12. As Kerby was published (eBPF '25): blocks of 128 bytes in a hash map, each under a number
 *	                 that is used once, and a hash map from ids to those numbers. Unlike there, reads are checked.
 *	KILN_POOL_ARRAY  Linux 5.6. The same blocks in an array, and free ones kept per CPU.
 *	KILN_POOL_ARENA  Linux 6.12, compiled with `kiln cc`. Blocks of kiln_malloc in the heap. It declares the heap, unless
 *	                 KILN_POOL_SHARES_HEAP is defined: then the program does, by kiln_heap(KILN_POOL_SUPPLY + ...). User space
 *	                 supplies KILN_POOL_SUPPLY bytes.
 */
#ifndef KILN_POOL_H
#define KILN_POOL_H

#define KILN_POOL_HASH 1
#define KILN_POOL_ARRAY 2
#define KILN_POOL_ARENA 3

#if !defined(KILN_POOL_STORE) || KILN_POOL_STORE < KILN_POOL_HASH || KILN_POOL_STORE > KILN_POOL_ARENA
#error "define KILN_POOL_STORE as KILN_POOL_HASH, KILN_POOL_ARRAY or KILN_POOL_ARENA before including kiln/pool.h"
#endif
#ifndef KILN_POOL_ID
#define KILN_POOL_ID __u64
#endif
#ifndef KILN_POOL_OBJECTS
#define KILN_POOL_OBJECTS 65536
#endif
#ifndef KILN_POOL_BYTES
#define KILN_POOL_BYTES (32u << 20)
#endif
#ifndef KILN_POOL_MAX
#define KILN_POOL_MAX 1024
#endif
#if KILN_POOL_MAX < 128 || KILN_POOL_MAX > 1024 || (KILN_POOL_MAX & (KILN_POOL_MAX - 1))
#error "KILN_POOL_MAX is a power of two from 128 to 1024"
#endif
/* CPUs that keep free memory of their own, a power of two; CPUs with higher numbers share it. */
#ifndef KILN_POOL_CPUS
#define KILN_POOL_CPUS 16
#endif
/* How often a read or a change begins again because others changed the object meanwhile. */
#ifndef KILN_POOL_TRIES
#define KILN_POOL_TRIES 8
#endif
/* What a read does between two blocks: nothing. A test defines it to give writers more time to interfere. */
#ifndef KILN_POOL_PAUSE
#define KILN_POOL_PAUSE()
#endif

#include <linux/bpf.h>
#include <linux/types.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>
#if KILN_POOL_STORE == KILN_POOL_ARENA
#include <kiln/heap.h>
#endif

#ifndef KILN_FUNCTION
#define KILN_FUNCTION static __attribute__((noinline, unused))
#endif

_Static_assert(sizeof(KILN_POOL_ID) % 8 == 0 && sizeof(KILN_POOL_ID) <= 128,
	       "an id has 8 to 128 bytes, a multiple of 8");
_Static_assert(KILN_POOL_MAX >= 8 && KILN_POOL_MAX <= 1024, "an object has at most 1024 bytes");
_Static_assert((KILN_POOL_CPUS & (KILN_POOL_CPUS - 1)) == 0 && KILN_POOL_CPUS <= 1024,
	       "KILN_POOL_CPUS is a power of two, at most 1024");

#include <kiln/pool/copy.h>
#if KILN_POOL_STORE == KILN_POOL_ARENA
#include <kiln/pool/arena.h>
#else
#include <kiln/pool/maps.h>
#endif

KILN_FUNCTION int kiln_pool_resize(const KILN_POOL_ID *id, __u32 bytes)
{
	if (bytes > KILN_POOL_MAX)
		return -E2BIG;
	for (__u32 try = 0; try < KILN_POOL_TRIES; try++) {
		int result = kiln_pool_try_resize(id, bytes);

		if (result != -EAGAIN)
			return result;
	}
	return -EBUSY;
}

#endif
