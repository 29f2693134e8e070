/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Concurrent variants of the data structures: a structure and a lock, for any number of writers and readers at once, in
 * programs on all CPUs and in user space (kiln/user.h). Include the structures' headers first:
 *
 *	#include <kiln/hash.h>
 *	#include <kiln/shared.h>
 *
 *	KILN_SHARED_MAP(hash, entry)
 *
 *	kiln_shared_hash_set(map, key, value);      // as kiln_hash_set
 *	kiln_shared_hash_get(map, key, missing);    // the value, or `missing`
 *	kiln_shared_hash_remove(map, key);          // as kiln_hash_remove
 *
 * The structure itself is `map->own`; create it before others see it. A program that is cancelled while it holds the lock
 * leaves the lock held and the structure half changed, so the quantum should be longer than an operation.
 */
#ifndef KILN_SHARED_H
#define KILN_SHARED_H

#include <kiln/heap.h>

/* A structure and its lock: hash, list, tree, skip, bp, clock, countmin, count, wheel, cuckoo. */
#define KILN_SHARED(name)                                                                          \
	struct kiln_shared_##name {                                                                \
		kiln_spinlock_t lock;                                                              \
		__u32 reserved;                                                                    \
		struct kiln_##name own;                                                            \
	};

/* A call of one of the structure's functions under its lock. */
#define kiln_shared_call(shared, call)                                                             \
	({                                                                                         \
		__typeof__(call) kiln_result;                                                      \
		kiln_spin_lock(&(shared)->lock);                                                   \
		kiln_result = (call);                                                              \
		kiln_spin_unlock(&(shared)->lock);                                                 \
		kiln_result;                                                                       \
	})

/* How a structure's `find` gives the value: an entry that has it (hash, list, tree, skip, clock), or its place (bp). */
#define KILN_VALUE_entry(found) ((found)->value)
#define KILN_VALUE_place(found) (*(found))

/* A map with `kiln_<name>_find`, `_set` and `_remove`; see above. */
#define KILN_SHARED_MAP(name, kind)                                                                \
	KILN_SHARED(name)                                                                          \
	KILN_FUNCTION __u64 kiln_shared_##name##_get(struct kiln_shared_##name *shared, __u64 key,  \
						     __u64 missing)                                \
	{                                                                                          \
		kiln_spin_lock(&shared->lock);                                                     \
		{                                                                                  \
			__typeof__(kiln_##name##_find(&shared->own, key)) found =                  \
				kiln_##name##_find(&shared->own, key);                             \
                                                                                                   \
			if (found)                                                                 \
				missing = KILN_VALUE_##kind(found);                                \
		}                                                                                  \
		kiln_spin_unlock(&shared->lock);                                                   \
		return missing;                                                                    \
	}                                                                                          \
	KILN_FUNCTION int kiln_shared_##name##_set(struct kiln_shared_##name *shared, __u64 key,    \
						   __u64 value)                                    \
	{                                                                                          \
		return kiln_shared_call(shared, kiln_##name##_set(&shared->own, key, value));      \
	}                                                                                          \
	KILN_FUNCTION int kiln_shared_##name##_remove(struct kiln_shared_##name *shared, __u64 key) \
	{                                                                                          \
		return kiln_shared_call(shared, kiln_##name##_remove(&shared->own, key));          \
	}

#endif
