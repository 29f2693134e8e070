/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store: a hash table of items in the heap, which programs and user space (apps/kv/src/store) change at the same time.
 *
 *	kv_state -> buckets[hash & mask] -> item -> item        a lock per bucket
 *	                                    item: next, hash, ..., text: "key flags bytes\r\n<value>\r\n"
 *
 * An item's text is what a reply to `get` says of it, so a reply is one copy. Whoever holds the lock of a bucket may read and
 * change its chain, its items and `version`. Items are filled before they are linked and freed after they are unlinked, so there
 * is no allocation under a lock. A program, which nobody can kill, may also write an item of the same size again in its place. A program tries a lock only KV_TRIES times, walks KV_STEPS items, and copies at most a
 * packet: nothing under a lock can be cancelled. What it does not get done, user space does.
 */
#ifndef KV_STORE_H
#define KV_STORE_H

#include <kiln/packet.h>

#define KV_MAGIC 0x3130564b4e4c494bull /* "KILNKV01" */
#define KV_TRIES 32
#define KV_STEPS 16
#define KV_CPUS 64
/* In `value_bytes`: the value is a hash or a sorted set, in user space's memory. */
#define KV_OBJECT (1u << 31)
/* In `value_bytes`: a client has asked for the item since it was stored. */
#define KV_FETCHED (1u << 27)

struct kv_bucket {
	kiln_spinlock_t lock;
	__u32 reserved;
	__u64 first; /* the address of the first item, or 0 */
	__u64 version; /* counts changes; an item's `cas` is the one that made it */
	__u64 reserved_too;
};

struct kv_item {
	__u64 next; /* the address of the next item of the bucket, or 0 */
	__u64 hash;
	__u64 cas;
	__u64 expires; /* in milliseconds of user space's clock; 0: never */
	__u32 key_bytes;
	__u32 text_bytes;
	__u32 value_bytes; /* and marks; or KV_OBJECT and which one it is */
	__u32 used; /* since eviction's hand was here */
	__u8 text[];
};

/* What the programs of one CPU have done. */
struct kv_counters {
	__u64 gets, hits, sets;
	__u64 passed; /* requests that were left to user space */
	__u64 reserved[4];
};

struct kv_state {
	__u64 magic;
	__u64 buckets; /* the address of the first; 0 until user space has made them */
	__u64 mask; /* buckets - 1 */
	__u64 seed; /* of the hash */
	__u64 now; /* in milliseconds; user space sets it many times a second */
	__u64 bytes; /* of all items: header and text */
	__u64 items;
	__u64 most_bytes; /* programs add no item beyond */
	__u64 port; /* UDP, in network order; 0: programs pass everything */
	__u64 address; /* of IPv4, in network order: what goes to others is not served */
	__u64 reserved[6];
	struct kv_counters cpu[KV_CPUS];
};

kiln_heap(KV_HEAP_BYTES);
static KILN_IN_HEAP struct kv_state kv_memory __attribute__((aligned(KILN_PAGE_BYTES))) = { .magic = KV_MAGIC };

static __always_inline struct kv_state *kv_store(void)
{
	return (struct kv_state *)(unsigned long)&kv_memory;
}

static __always_inline struct kv_counters *kv_count(void)
{
	return &kv_store()->cpu[bpf_get_smp_processor_id() & (KV_CPUS - 1)];
}

/* Whether the lock was taken. Its holder may be a thread that this program has interrupted, so waiting does not help. */
static __always_inline int kv_try_lock(struct kv_bucket *bucket)
{
	_Pragma("clang loop unroll(disable)") for (int try = 0; try < KV_TRIES; try++)
		if (!__sync_val_compare_and_swap(&bucket->lock.held, 0, 1))
			return 1;
	return 0;
}

static __always_inline struct kv_bucket *kv_bucket(__u64 hash)
{
	struct kv_state *store = kv_store();

	return (struct kv_bucket *)(unsigned long)store->buckets + (hash & store->mask);
}

static __always_inline struct kv_item *kv_item(__u64 address)
{
	return (struct kv_item *)(unsigned long)address;
}

/*
 * The address of the word that leads to the packet's key in a bucket, or of the last word of the chain. 0 where user space should look:
 * in long chains, and where another key has the same hash, which clients cannot bring about because they do not know the seed.
 */
KILN_FUNCTION __u64 *kv_find(struct xdp_md *ctx, struct kv_bucket *bucket, __u64 hash, __u64 at, __u64 key_bytes)
{
	__u64 *link = &bucket->first;
	struct kv_item *item;

	for (int step = 0; step < KV_STEPS; step++) {
		item = kv_item(*link);
		if (!item)
			return link;
		if (item->hash == hash)
			goto found;
		link = &item->next;
	}
	return 0;
found:
	/* Outside of the loop, so that it is known to happen once. */
	return item->key_bytes == key_bytes && kiln_packet_equals(ctx, at, item->text, key_bytes) == 1 ? link : 0;
}

/* Whether only user space can read or replace an item. */
static __always_inline int kv_is_object(struct kv_item *item)
{
	return !!(item->value_bytes & KV_OBJECT);
}

/* Whether an item counts as gone. */
static __always_inline int kv_expired(struct kv_item *item)
{
	return item->expires && item->expires <= kv_store()->now;
}

#endif
