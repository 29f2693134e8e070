/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kiln_malloc, kiln_free and kiln_realloc: memory of the heap by size classes. Included by kiln/heap.h.
 *
 *	free list of this CPU -> memory never used before -> free lists of other CPUs -> NULL
 *
 * Memory comes from user space, because a program that may not sleep cannot allocate pages: user space populates pages and says
 * how far they reach (`limit`). Before that, kiln_malloc returns NULL. A block carries eight bytes before it: its class, whether
 * it is allocated, and while it is free the next free block.
 *
 * A free list is one 64-bit word: the lower half of the first block's address, and a count of changes, so that one
 * compare-and-exchange takes a block even if others were freed and taken in between. Programs on all CPUs, programs that interrupt each
 * other and user space may use a list at once, and a program that is cancelled leaves every list intact.
 */
#ifndef KILN_MALLOC_H
#define KILN_MALLOC_H

/* Block sizes, header included: 16, 24, 32, 48, ... two per doubling, up to 1 MiB. */
#define KILN_CLASSES 33
/* CPUs that have free lists; CPUs with higher numbers share them. */
#define KILN_CPUS 128
#define KILN_HEAP_MAGIC 0x504145484e4c494bull /* "KILNHEAP" */
/* A block's `state` is one of these plus its class. */
#define KILN_ALLOCATED 0x6b696c00u
#define KILN_FREE 0x66726500u

struct kiln_block {
	__u32 state;
	__u32 next; /* while it is free: the lower half of the next free block's address, or 0 */
	__u64 memory[];
};

struct kiln_heap_cpu {
	__u64 free[KILN_CLASSES];
	__u64 allocated_bytes; /* by this CPU, headers included */
	__u64 freed_bytes; /* by this CPU, wherever they were allocated */
	__u64 failures; /* allocations that returned NULL */
};

/* What programs share with user space. It begins a page of its own, where user space finds it by its first word. */
struct kiln_heap_state {
	__u64 magic;
	__u64 start; /* the address of the first block; 0 until user space has supplied memory */
	__u64 fresh; /* where memory begins that was never used */
	__u64 limit; /* where it ends */
	__u64 bad_frees; /* frees of what was not allocated */
	__u64 cpus; /* how many of `cpu` are in use */
	__u64 reserved[2];
	struct kiln_heap_cpu cpu[KILN_CPUS];
};

#ifdef KILN_USER
/* That of the heap that kiln/user.h has mapped. */
static struct kiln_heap_state *kiln_user_state;
#else
static KILN_IN_HEAP struct kiln_heap_state kiln_heap_state
	__attribute__((aligned(KILN_PAGE_BYTES))) = { .magic = KILN_HEAP_MAGIC, .cpus = KILN_CPUS };
#endif

static __always_inline struct kiln_heap_state *kiln_state(void)
{
#ifdef KILN_USER
	return kiln_user_state;
#else
	return (struct kiln_heap_state *)(unsigned long)&kiln_heap_state;
#endif
}

static __always_inline __u32 kiln_class_bytes(__u32 class)
{
	return (class & 1 ? 24u : 16u) << (class >> 1);
}

/* The smallest class of blocks with `bytes` bytes, 1 to 2^20 + 7; KILN_CLASSES or more when there is none. */
static __always_inline __u32 kiln_class_of(__u64 bytes)
{
	/* The fewest doublings of 24 bytes: as many as (bytes - 1) / 24 has bits. Without branches, for the verifier's sake. */
	__u32 bits = (__u32)(bytes - 1) / 24;

	bits |= bits >> 1;
	bits |= bits >> 2;
	bits |= bits >> 4;
	bits |= bits >> 8;
	bits = (bits & 0x5555) + (bits >> 1 & 0x5555);
	bits = (bits & 0x3333) + (bits >> 2 & 0x3333);
	bits = (bits & 0x0f0f) + (bits >> 4 & 0x0f0f);
	bits = (bits + (bits >> 8)) & 0x1f;
	return 2 * bits + (bytes > 16u << bits);
}

static __always_inline __u32 kiln_cpu(void)
{
#ifdef __bpf__
	return bpf_get_smp_processor_id() & (KILN_CPUS - 1);
#else
	return 0;
#endif
}

/* The block with this lower half of its address: the heap does not cross a multiple of 4 GiB. */
static __always_inline struct kiln_block *kiln_block_at(struct kiln_heap_state *heap, __u32 low)
{
	return (struct kiln_block *)(unsigned long)((heap->start & ~0xffffffffull) | low);
}

static __always_inline void kiln_push(__u64 *list, struct kiln_block *block)
{
	__u64 head = *(volatile __u64 *)list, seen;

	for (;;) {
		block->next = (__u32)head;
		seen = __sync_val_compare_and_swap(
			list, head, ((head >> 32) + 1) << 32 | (__u32)(unsigned long)block);
		if (seen == head)
			return;
		head = seen;
	}
}

static __always_inline struct kiln_block *kiln_pop(struct kiln_heap_state *heap, __u64 *list)
{
	__u64 head = *(volatile __u64 *)list, seen;

	while ((__u32)head) {
		struct kiln_block *block = kiln_block_at(heap, head);

		seen = __sync_val_compare_and_swap(list, head, ((head >> 32) + 1) << 32 | block->next);
		if (seen == head)
			return block;
		head = seen;
	}
	return 0;
}

/* Memory that was never used, while there is some. */
static __always_inline struct kiln_block *kiln_fresh(struct kiln_heap_state *heap, __u32 bytes)
{
	__u64 at = *(volatile __u64 *)&heap->fresh, seen;

	while (at && at + bytes <= heap->limit) {
		seen = __sync_val_compare_and_swap(&heap->fresh, at, at + bytes);
		if (seen == at)
			return (struct kiln_block *)(unsigned long)at;
		at = seen;
	}
	return 0;
}

/* A free block of another CPU. */
KILN_FUNCTION struct kiln_block *kiln_steal(__u32 class)
{
	struct kiln_heap_state *heap = kiln_state();

	for (__u32 cpu = 0; cpu < heap->cpus; cpu++) {
		struct kiln_block *block = kiln_pop(heap, &heap->cpu[cpu].free[class]);

		if (block)
			return block;
	}
	return 0;
}

/* A block's memory, by its class. */
KILN_FUNCTION void *kiln_allocate(__u32 class)
{
	struct kiln_heap_state *heap = kiln_state();
	struct kiln_heap_cpu *cpu = &heap->cpu[kiln_cpu()];
	struct kiln_block *block = 0;

	if (class < KILN_CLASSES) {
		block = kiln_pop(heap, &cpu->free[class]);
		if (!block)
			block = kiln_fresh(heap, kiln_class_bytes(class));
		if (!block)
			block = kiln_steal(class);
	}
	if (!block) {
		__sync_fetch_and_add(&cpu->failures, 1);
		return 0;
	}
	block->state = KILN_ALLOCATED | class;
	__sync_fetch_and_add(&cpu->allocated_bytes, kiln_class_bytes(class));
	return block->memory;
}

/* Memory of the heap, aligned to 8 bytes and not cleared; NULL when there is none. At most 1 MiB less 8 bytes. */
static __always_inline void *kiln_malloc(__u64 bytes)
{
	return kiln_allocate(bytes < 1u << 20 ? kiln_class_of(bytes + 8) : KILN_CLASSES);
}

/* The block of an address that kiln_malloc may have given; NULL for any other. */
static __always_inline struct kiln_block *kiln_block_of(struct kiln_heap_state *heap, void *memory)
{
	__u64 at = (__u64)(unsigned long)memory - 8;

	if (!heap->start || at < heap->start || at >= heap->fresh || at & 7)
		return 0;
	return (struct kiln_block *)(unsigned long)at;
}

/* The class of an allocated block's state; KILN_CLASSES for any other state. */
static __always_inline __u32 kiln_allocated_class(__u32 state)
{
	__u32 class = state ^ KILN_ALLOCATED;

	return class < KILN_CLASSES ? class : KILN_CLASSES;
}

/*
 * Frees memory. NULL is allowed. A second time, or an address that kiln_malloc did not give, changes nothing but
 * `bad_frees`, unless the eight bytes before it look like a block's.
 */
KILN_FUNCTION void kiln_free(void *memory)
{
	struct kiln_heap_state *heap = kiln_state();
	struct kiln_heap_cpu *cpu = &heap->cpu[kiln_cpu()];
	struct kiln_block *block;
	__u32 state, class;

	if (!memory)
		return;
	block = kiln_block_of(heap, memory);
	state = block ? block->state : 0;
	class = kiln_allocated_class(state);
	if (class >= KILN_CLASSES || __sync_val_compare_and_swap(&block->state, state, KILN_FREE | class) != state) {
		__sync_fetch_and_add(&heap->bad_frees, 1);
		return;
	}
	__sync_fetch_and_add(&cpu->freed_bytes, kiln_class_bytes(class));
	kiln_push(&cpu->free[class], block);
}

/*
 * Memory of another size that begins with the same bytes. NULL when there is none, and then the old memory stays; NULL too for
 * an address that kiln_malloc did not give.
 */
KILN_FUNCTION void *kiln_realloc(void *memory, __u64 bytes)
{
	struct kiln_heap_state *heap = kiln_state();
	__u64 *from = memory, *to;
	struct kiln_block *block;
	__u32 class;
	__u64 room;

	if (!memory)
		return kiln_malloc(bytes);
	block = kiln_block_of(heap, memory);
	class = kiln_allocated_class(block ? block->state : 0);
	if (class >= KILN_CLASSES)
		return 0;
	room = kiln_class_bytes(class) - 8;
	if (bytes <= room)
		return memory;
	to = kiln_malloc(bytes);
	if (!to)
		return 0;
	for (__u64 at = 0; at < room / 8; at++)
		to[at] = from[at];
	kiln_free(memory);
	return to;
}

#if !defined(__bpf__) && !defined(KILN_USER)
/* Native code: gives the allocator a range that does not cross a multiple of 4 GiB. Programs' user space does it from outside. */
static inline void kiln_heap_supply(void *start, __u64 bytes)
{
	struct kiln_heap_state *heap = kiln_state();

	heap->start = heap->fresh = (__u64)(unsigned long)start;
	heap->limit = heap->start + bytes;
}
#endif

#endif
