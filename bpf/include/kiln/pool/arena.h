/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects in the heap, for KILN_POOL_ARENA. Included by kiln/pool.h.
 *
 *	buckets[hash of the id] { sequence, head } -> item { bytes, class, next, id, contents } -> item -> ...
 *
 * An item that is in a bucket's list is never changed, except for `next`. A write fills an item of its own, then takes the
 * bucket's sequence lock (an odd number) and puts the new item into the place of the old one. It looks up the place before
 * it takes the lock, by a compare-and-exchange from the number that it saw before. So nothing under the lock is a loop,
 * and a program that is cancelled never holds one. A reader notes the sequence, copies, and looks at the sequence again.
 *
 * Items are blocks of kiln_malloc. What a reader still looks at may be freed and in use for anything else: the reader finds that the
 * bucket's sequence has changed.
 */
#ifndef KILN_POOL_ARENA_H
#define KILN_POOL_ARENA_H

/* An odd sequence is polled this often before it counts as a try. */
#define KILN_POOL_POLLS 4096
/* A stale list may have become a circle: the sequence is compared after this many items. A power of two. */
#define KILN_POOL_STEPS 32

struct kiln_pool_item {
	__u32 bytes;
	__u32 next; /* the lower half of the next item's address, or 0: the heap does not cross a multiple of 4 GiB */
	KILN_POOL_ID id;
	__u64 words[];
};

struct kiln_pool_bucket {
	__u32 sequence; /* odd: a program changes the list */
	__u32 head;
};

struct kiln_pool_state {
	__u64 buckets; /* the address of the first; 0 before the first write, 1 while they are made */
	__u64 bytes; /* contents of all items */
	__u64 objects;
};

static KILN_IN_HEAP struct kiln_pool_state kiln_pool_memory __attribute__((aligned(64)));

/* Buckets: the power of two that is not below KILN_POOL_OBJECTS. */
#define KILN_POOL_FILL1(n) ((n) | (n) >> 1)
#define KILN_POOL_FILL2(n) (KILN_POOL_FILL1(n) | KILN_POOL_FILL1(n) >> 2)
#define KILN_POOL_FILL4(n) (KILN_POOL_FILL2(n) | KILN_POOL_FILL2(n) >> 4)
#define KILN_POOL_FILL8(n) (KILN_POOL_FILL4(n) | KILN_POOL_FILL4(n) >> 8)
enum {
	KILN_POOL_BUCKET_MASK =
		KILN_POOL_FILL8((KILN_POOL_OBJECTS)-1u) | KILN_POOL_FILL8((KILN_POOL_OBJECTS)-1u) >> 16,
	KILN_POOL_BUCKETS = KILN_POOL_BUCKET_MASK + 1,
};
_Static_assert((KILN_POOL_OBJECTS) >= 1 && (KILN_POOL_OBJECTS) <= 1u << 24, "1 to 16,777,216 objects");

/*
 * What user space supplies for a full pool: contents, items' and blocks' headers, with what size classes and slabs round up; a slab
 * for each class; buckets.
 */
#define KILN_POOL_SUPPLY                                                                           \
	(((KILN_POOL_BYTES) + (KILN_POOL_OBJECTS + 1024ull) * (sizeof(struct kiln_pool_item) + 8)) / 4 * 5 + \
	 KILN_RUN * KILN_SLAB_BYTES + KILN_POOL_BUCKETS * sizeof(struct kiln_pool_bucket) + KILN_SLAB_BYTES)

#ifndef KILN_POOL_SHARES_HEAP
/* For global variables too, the allocator's among them. */
kiln_heap(KILN_POOL_SUPPLY + (1u << 20));
#endif

static __always_inline struct kiln_pool_state *kiln_pool_state(void)
{
	return (struct kiln_pool_state *)(unsigned long)&kiln_pool_memory;
}

static __always_inline struct kiln_pool_item *kiln_pool_item_at(struct kiln_heap_state *heap, __u32 low)
{
	return (struct kiln_pool_item *)(unsigned long)((heap->start & ~0xffffffffull) | low);
}

static __always_inline __u32 kiln_pool_hash(const KILN_POOL_ID *id)
{
	const __u64 *words = (const __u64 *)id;
	__u64 hash = 0;

#pragma unroll
	for (__u32 at = 0; at < sizeof(KILN_POOL_ID) / 8; at++) {
		hash = (hash ^ words[at]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return (__u32)hash & KILN_POOL_BUCKET_MASK;
}

/*
 * Makes the buckets, which are zeros because their memory was never used; 0 if there is no memory, or another program makes them
 * or was first to take memory. Without a loop: a program that is cancelled does not leave them half made.
 */
KILN_FUNCTION struct kiln_pool_bucket *kiln_pool_make_buckets(void)
{
	struct kiln_pool_state *pool = kiln_pool_state();
	struct kiln_heap_state *heap = kiln_state();
	__u64 made, end;

	if (__sync_val_compare_and_swap(&pool->buckets, 0, 1))
		return 0;
	made = KILN_POOL_ONCE(heap->fresh);
	end = made + ((KILN_POOL_BUCKETS * sizeof(struct kiln_pool_bucket) + KILN_SLAB_BYTES - 1) & -(__u64)KILN_SLAB_BYTES);
	if (!made || end > heap->limit || __sync_val_compare_and_swap(&heap->fresh, made, end) != made)
		made = 0;
	KILN_POOL_ONCE(pool->buckets) = made;
	return (struct kiln_pool_bucket *)(unsigned long)made;
}

/* The buckets, or NULL if there are none yet. */
static __always_inline struct kiln_pool_bucket *kiln_pool_buckets(void)
{
	struct kiln_pool_state *pool = kiln_pool_state();
	__u64 buckets = KILN_POOL_ONCE(pool->buckets);

	return (struct kiln_pool_bucket *)(unsigned long)(buckets > 1 ? buckets : 0);
}

/* An item for an object of `bytes` bytes; NULL if memory is exhausted. */
KILN_FUNCTION struct kiln_pool_item *kiln_pool_take_item(__u32 bytes)
{
	struct kiln_pool_state *pool = kiln_pool_state();
	struct kiln_pool_item *item = 0;

	if (__sync_fetch_and_add(&pool->bytes, (__u64)bytes) + bytes <= KILN_POOL_BYTES)
		item = kiln_malloc(sizeof(*item) + bytes);
	if (item)
		item->bytes = bytes;
	else
		__sync_fetch_and_add(&pool->bytes, -(__u64)bytes);
	return item;
}

KILN_FUNCTION void kiln_pool_give_item(struct kiln_pool_item *item)
{
	__sync_fetch_and_add(&kiln_pool_state()->bytes, -(__u64)item->bytes);
	kiln_free(item);
}

/* The bucket's sequence when it is even; odd if it never was. */
static __always_inline __u32 kiln_pool_even(struct kiln_pool_bucket *bucket)
{
	__u32 sequence = KILN_POOL_ONCE(bucket->sequence);

	for (__u32 poll = 0; sequence & 1 && poll < KILN_POOL_POLLS; poll++)
		sequence = KILN_POOL_ONCE(bucket->sequence);
	kiln_pool_order();
	return sequence;
}

/*
 * The word that holds an object's link, and the link: 0 if there is no such object. What it says is true only if the sequence
 * is still the same afterwards.
 */
static __always_inline __u32 *kiln_pool_find(struct kiln_pool_bucket *bucket, const KILN_POOL_ID *id, __u32 sequence)
{
	struct kiln_heap_state *heap = kiln_state();
	__u32 *link = &bucket->head, low;

	for (__u32 step = 1; (low = KILN_POOL_ONCE(*link)); step++) {
		struct kiln_pool_item *item = kiln_pool_item_at(heap, low);

		if (kiln_pool_same(&item->id, id))
			return link;
		if (!(step & (KILN_POOL_STEPS - 1)) && KILN_POOL_ONCE(bucket->sequence) != sequence)
			return link;
		link = &item->next;
	}
	return link;
}

/* Puts `item` into an object's place; NULL removes the object. `found` is its link, `low` what it holds. */
static __always_inline void kiln_pool_exchange(struct kiln_pool_bucket *bucket, __u32 *found, __u32 low,
					       struct kiln_pool_item *item)
{
	struct kiln_pool_item *old = kiln_pool_item_at(kiln_state(), low);
	__u32 next = low ? old->next : 0, new = next;

	if (item) {
		item->next = next;
		kiln_pool_order();
		new = (__u32)(unsigned long)item;
	}
	KILN_POOL_ONCE(*found) = new;
	kiln_pool_order();
	KILN_POOL_ONCE(bucket->sequence) = bucket->sequence + 1;
}

/* Counts one object more; whether there may be one. */
static __always_inline int kiln_pool_count(struct kiln_pool_state *pool)
{
	if (__sync_fetch_and_add(&pool->objects, 1) < KILN_POOL_OBJECTS)
		return 1;
	__sync_fetch_and_add(&pool->objects, -1);
	return 0;
}

/* Makes `item` the contents of an object. 0, and the item is no longer the caller's; or a negative errno. */
KILN_FUNCTION int kiln_pool_publish(const KILN_POOL_ID *id, struct kiln_pool_item *item, __u64 flags)
{
	struct kiln_pool_bucket *bucket = kiln_pool_buckets();
	struct kiln_pool_state *pool = kiln_pool_state();
	struct kiln_heap_state *heap = kiln_state();

	if (!bucket)
		bucket = kiln_pool_make_buckets();
	if (!bucket)
		return -ENOMEM;
	bucket += kiln_pool_hash(id);
	for (__u32 try = 0; try < KILN_POOL_TRIES; try++) {
		__u32 sequence = kiln_pool_even(bucket), low;
		__u32 *link = kiln_pool_find(bucket, id, sequence);

		low = KILN_POOL_ONCE(*link);
		kiln_pool_order();
		if (KILN_POOL_ONCE(bucket->sequence) != sequence || sequence & 1)
			continue;
		if (flags == (low ? BPF_NOEXIST : BPF_EXIST))
			return low ? -EEXIST : -ENOENT;
		if (!low && !kiln_pool_count(pool))
			return -ENOMEM;
		if (__sync_val_compare_and_swap(&bucket->sequence, sequence, sequence + 1) != sequence) {
			if (!low)
				__sync_fetch_and_add(&pool->objects, -1);
			continue;
		}
		kiln_pool_exchange(bucket, link, low, item);
		if (low)
			kiln_pool_give_item(kiln_pool_item_at(heap, low));
		return 0;
	}
	return -EBUSY;
}

/* Fills an item from a buffer. 0, or a negative errno. */
KILN_FUNCTION int kiln_pool_fill(struct kiln_pool_item *item, const void *from, const void *end, __u32 bytes)
{
	__u32 whole = bytes / KILN_POOL_CHUNK, rest = kiln_pool_bits(bytes, KILN_POOL_CHUNK - 1);
	__u32 last = kiln_pool_bits(bytes, KILN_POOL_SIZES) / KILN_POOL_CHUNK;
	void *to = item->words;

	for (__u32 index = 0; index < KILN_POOL_LIST; index++) {
		if (index >= whole)
			break;
		if (!kiln_pool_copy_chunk(to + index * KILN_POOL_CHUNK, from + index * KILN_POOL_CHUNK,
					  from + index * KILN_POOL_CHUNK, end))
			return -ENOSPC;
	}
	if (!rest || last >= KILN_POOL_LIST)
		return 0;
	from += last * KILN_POOL_CHUNK;
	to += last * KILN_POOL_CHUNK;
	return kiln_pool_copy_rest(to, from, from, end, rest) ? 0 : -ENOSPC;
}

KILN_FUNCTION int kiln_pool_alloc(const KILN_POOL_ID *id, __u32 bytes)
{
	struct kiln_pool_item *item;
	int result;

	if (bytes > KILN_POOL_MAX)
		return -E2BIG;
	item = kiln_pool_take_item(bytes);
	if (!item)
		return -ENOMEM;
	item->id = *id;
	for (__u32 at = 0; at < KILN_POOL_MAX / 8; at++) {
		if (at * 8 >= bytes)
			break;
		item->words[at] = 0;
	}
	result = kiln_pool_publish(id, item, BPF_NOEXIST);
	if (result)
		kiln_pool_give_item(item);
	return result;
}

KILN_FUNCTION int kiln_pool_write(const KILN_POOL_ID *id, const void *from, const void *end, __u32 bytes, __u64 flags)
{
	struct kiln_pool_item *item;
	int result;

	if (bytes > KILN_POOL_MAX)
		return -E2BIG;
	if (from + bytes > end)
		return -ENOSPC;
	item = kiln_pool_take_item(bytes);
	if (!item)
		return -ENOMEM;
	item->id = *id;
	result = kiln_pool_fill(item, from, end, kiln_pool_bits(bytes, KILN_POOL_SIZES));
	if (!result)
		result = kiln_pool_publish(id, item, flags);
	if (result)
		kiln_pool_give_item(item);
	return result;
}

KILN_FUNCTION int kiln_pool_free(const KILN_POOL_ID *id)
{
	struct kiln_pool_bucket *bucket = kiln_pool_buckets();
	struct kiln_pool_state *pool = kiln_pool_state();
	struct kiln_heap_state *heap = kiln_state();

	if (!bucket)
		return -ENOENT;
	bucket += kiln_pool_hash(id);
	for (__u32 try = 0; try < KILN_POOL_TRIES; try++) {
		__u32 sequence = kiln_pool_even(bucket), low;
		__u32 *link = kiln_pool_find(bucket, id, sequence);

		low = KILN_POOL_ONCE(*link);
		kiln_pool_order();
		if (KILN_POOL_ONCE(bucket->sequence) != sequence || sequence & 1)
			continue;
		if (!low)
			return -ENOENT;
		if (__sync_val_compare_and_swap(&bucket->sequence, sequence, sequence + 1) != sequence)
			continue;
		kiln_pool_exchange(bucket, link, low, 0);
		__sync_fetch_and_add(&pool->objects, -1);
		kiln_pool_give_item(kiln_pool_item_at(heap, low));
		return 0;
	}
	return -EBUSY;
}

/* Copies an item's contents; how many bytes, or a negative errno. */
KILN_FUNCTION int kiln_pool_copy_out(struct kiln_pool_item *item, void *to, const void *end)
{
	__u32 bytes = KILN_POOL_ONCE(item->bytes), whole = bytes / KILN_POOL_CHUNK;
	__u32 last = kiln_pool_bits(bytes, KILN_POOL_SIZES) / KILN_POOL_CHUNK;
	__u32 rest = kiln_pool_bits(bytes, KILN_POOL_CHUNK - 1);
	void *from = item->words;

	if (bytes > KILN_POOL_MAX)
		return -EAGAIN;
	if (to + bytes > end)
		return -ENOSPC;
	for (__u32 index = 0; index < KILN_POOL_LIST; index++) {
		if (index >= whole)
			break;
		KILN_POOL_PAUSE();
		if (!kiln_pool_copy_chunk(to + index * KILN_POOL_CHUNK, from + index * KILN_POOL_CHUNK,
					  to + index * KILN_POOL_CHUNK, end))
			return -ENOSPC;
	}
	if (!rest || last >= KILN_POOL_LIST)
		return bytes;
	to += last * KILN_POOL_CHUNK;
	from += last * KILN_POOL_CHUNK;
	return kiln_pool_copy_rest(to, from, to, end, rest) ? bytes : -ENOSPC;
}

KILN_FUNCTION int kiln_pool_read(const KILN_POOL_ID *id, void *to, const void *end)
{
	struct kiln_pool_bucket *bucket = kiln_pool_buckets();
	struct kiln_heap_state *heap = kiln_state();

	if (!bucket)
		return -ENOENT;
	bucket += kiln_pool_hash(id);
	for (__u32 try = 0; try < KILN_POOL_TRIES; try++) {
		__u32 sequence = kiln_pool_even(bucket), low;
		int result = -ENOENT;

		low = KILN_POOL_ONCE(*kiln_pool_find(bucket, id, sequence));
		if (low)
			result = kiln_pool_copy_out(kiln_pool_item_at(heap, low), to, end);
		kiln_pool_order();
#ifdef KILN_POOL_UNCHECKED
		/* For the test that shows what the check is for. */
		if (low)
			return result;
#endif
		if (KILN_POOL_ONCE(bucket->sequence) == sequence && !(sequence & 1))
			return result;
	}
	return -EBUSY;
}

/* Copies the beginning of an object into an item of another size; what is new is zero. */
KILN_FUNCTION int kiln_pool_move(struct kiln_pool_item *to, const struct kiln_pool_item *from)
{
	__u32 bytes = to->bytes, kept = from->bytes;

	for (__u32 at = 0; at < KILN_POOL_MAX; at += 8) {
		__u64 word = 0;

		if (at >= bytes)
			break;
		if (at < kept)
			word = from->words[at / 8];
		if (at < kept && at + 8 > kept)
			word &= (1ull << 8 * (kept % 8)) - 1;
		to->words[at / 8] = word;
	}
	return 0;
}

/* One try of kiln_pool_resize; -EAGAIN when another program was first. */
KILN_FUNCTION int kiln_pool_try_resize(const KILN_POOL_ID *id, __u32 bytes)
{
	struct kiln_pool_bucket *bucket = kiln_pool_buckets();
	struct kiln_heap_state *heap = kiln_state();
	struct kiln_pool_item *item, *old;
	__u32 sequence, low, *link;

	if (!bucket)
		return -ENOENT;
	bucket += kiln_pool_hash(id);
	sequence = kiln_pool_even(bucket);
	link = kiln_pool_find(bucket, id, sequence);
	low = KILN_POOL_ONCE(*link);
	kiln_pool_order();
	if (KILN_POOL_ONCE(bucket->sequence) != sequence || sequence & 1)
		return -EAGAIN;
	if (!low)
		return -ENOENT;
	item = kiln_pool_take_item(bytes);
	if (!item)
		return -ENOMEM;
	old = kiln_pool_item_at(heap, low);
	item->id = *id;
	kiln_pool_move(item, old);
	if (__sync_val_compare_and_swap(&bucket->sequence, sequence, sequence + 1) != sequence) {
		kiln_pool_give_item(item);
		return -EAGAIN;
	}
	kiln_pool_exchange(bucket, link, low, item);
	kiln_pool_give_item(old);
	return 0;
}

#endif
