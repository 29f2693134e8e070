/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kiln_malloc, kiln_free and kiln_realloc: memory of the heap by size classes. Included by kiln/heap.h; user space has the same in
 * crates/heap/src/allocator.rs.
 *
 *	region (1 MiB) = 64 slabs (16 KiB) = blocks of one class, or one block over several adjacent slabs (a run)
 *
 *	start ............ fresh ............ limit      slabs that were used; memory that never was; memory not supplied yet
 *	table, in words of 64 bits:
 *		a word per slab		class, blocks given out so far, free blocks, the first of them, a count of changes
 *		row 0, a bit per slab	it is free: a compare-and-exchange of a region's bits takes a slab, or a run
 *		a row per class		the slab may have a free block of that class, and no CPU tries it first
 *
 * kiln_malloc tries the slab of this CPU and class, another slab of the class, a free slab, memory that was never used, slabs of other
 * CPUs; then it returns NULL. One compare-and-exchange of a slab's word takes or frees a block. The one that frees the last block
 * makes the slab a free slab, for any class. So a heap in which everything is freed serves any size.
 *
 * kiln_allocate and kiln_free try one exchange. All else is in kiln_allocate_elsewhere and kiln_free_elsewhere: the kernel verifies these
 * global functions once per program, and not in every call.
 *
 * Nothing is ever locked. Programs on all CPUs, programs that interrupt each other and user space may allocate at once. Who is ended
 * at any instruction loses at most what it was moving: a block (its slab then keeps its class), or the slabs of a run.
 *
 * Memory comes from user space, because a program that may not sleep cannot allocate pages: user space populates pages, says how far
 * they reach (`limit`), and places the table. Before that, kiln_malloc returns NULL. A block carries eight bytes before it: whether
 * it is allocated, its class, and while it is free the next free block of the slab.
 */
#ifndef KILN_MALLOC_H
#define KILN_MALLOC_H

#define KILN_SLAB_SHIFT 14
#define KILN_SLAB_BYTES (1u << KILN_SLAB_SHIFT)
/* Slabs of a region: bits of a word. A run does not leave its region. */
#define KILN_REGION_SLABS 64
/*
 * Classes 1 to 56 are block sizes, header included: 16, 32, ... 256 bytes, then eight per doubling up to 8 KiB. Class 57 is a run of
 * slabs. Row 0 of the table is for free slabs.
 */
#define KILN_ROWS 57
#define KILN_RUN 57
/* CPUs that have slabs of their own; CPUs with higher numbers share them. */
#define KILN_CPUS 128
#define KILN_HEAP_MAGIC 0x323050484e4c494bull /* "KILNHP02" */
/* A block's `state` is one of these plus its class. */
#define KILN_ALLOCATED 0x6b696c00u
#define KILN_FREE 0x66726500u

/* A slab's word. Places of blocks are in units of 16 bytes. A free slab's class is 0. */
#define KILN_FIRST(word) ((__u32)(word) & 0x3ff) /* the place of the first free block, if there is one */
#define KILN_FREES(word) ((__u32)(word) >> 10 & 0x7ff) /* free blocks */
#define KILN_GIVEN(word) ((__u32)(word) >> 21) /* blocks given out since it has this class, from its beginning on; slabs of a run */
#define KILN_CLASS(word) ((__u32)((word) >> 32) & 63)
#define KILN_ONE_FREE (1ull << 10)
#define KILN_ONE_GIVEN (1ull << 21)
#define KILN_ONE_CLASS (1ull << 32)
#define KILN_ONE_CHANGE (1ull << 38)
/* How often user space tries. */
#define KILN_TRIES (1u << 20)
/* No slab. */
#define KILN_NONE (~0ull)

struct kiln_block {
	__u32 state;
	__u32 next; /* while it is free: the place of the next free block of the slab */
	__u64 memory[];
};

struct kiln_heap_cpu {
	__u64 allocated_bytes; /* by this CPU, headers included */
	__u64 freed_bytes; /* by this CPU, wherever they were allocated */
	__u64 failures; /* allocations that returned NULL */
	__u64 slab[KILN_ROWS]; /* which slab is tried first, by class; [0]: where the last run was found */
};

/* What programs share with user space. It begins a page of its own, where user space finds it by its first word. */
struct kiln_heap_state {
	__u64 magic;
	__u64 start; /* the address of the first slab; 0 until user space has supplied memory */
	__u64 fresh; /* where memory begins that was never used */
	__u64 limit; /* where it ends */
	__u64 bad_frees; /* frees of what was not allocated */
	__u64 cpus; /* how many of `cpu` are in use */
	__u64 table; /* the address of the table */
	__u64 slabs; /* that the table has room for */
	__u64 rows[KILN_ROWS]; /* 0: a row has no bits, as far as is known; then nobody looks for one, until one is set or memory is exhausted */
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

static __always_inline __u32 kiln_cpu(void)
{
#ifdef __bpf__
	return bpf_get_smp_processor_id() & (KILN_CPUS - 1);
#else
	return 0;
#endif
}

/* Bytes of a class's blocks. */
static __always_inline __u32 kiln_class_bytes(__u32 class)
{
	__u32 doublings = class > 9 ? (class - 9) >> 3 : 0;

	return (class - 8 * doublings) << (4 + doublings);
}

/*
 * The class of blocks with `bytes` bytes, header included: the smallest one, or from KILN_RUN on the run with so many more slabs than
 * one. Without branches on the size, for the verifier's sake.
 */
static __always_inline __u32 kiln_class_of(__u64 bytes)
{
	__u32 bits = (__u32)(bytes - 1) >> 8 & 31;

	if (bytes > KILN_SLAB_BYTES / 2)
		return KILN_RUN + (__u32)((bytes - 1) >> KILN_SLAB_SHIFT);
	bits |= bits >> 1;
	bits |= bits >> 2;
	bits |= bits >> 4;
	bits = (bits & 0x15) + (bits >> 1 & 0x15);
	bits = (bits & 3) + (bits >> 2 & 3) + (bits >> 4);
	return ((__u32)(bytes - 1) >> (4 + bits)) + 1 + 8 * bits;
}

/* Where the slabs and the table are. */
#ifdef KILN_USER
struct kiln_layout {
	__u64 start, table, slabs;
};
/* The state's, checked once (kiln/user.h): a program may write anything there. */
static struct kiln_layout *kiln_user_layout(void);
#define KILN_LAYOUT(heap) ((void)(heap), kiln_user_layout())
/* Programs may change a word so often that no exchange succeeds. User space then gives up; a program would be cancelled. */
#define KILN_AGAIN(tries) (tries++ < KILN_TRIES)
#else
#define KILN_LAYOUT(heap) (heap)
#define KILN_AGAIN(tries) ((void)tries, 1)
#endif

static __always_inline __u64 *kiln_slab_word(struct kiln_heap_state *heap, __u64 slab)
{
	return (__u64 *)(unsigned long)KILN_LAYOUT(heap)->table + slab;
}

static __always_inline __u64 kiln_regions(struct kiln_heap_state *heap)
{
	return (KILN_LAYOUT(heap)->slabs + KILN_REGION_SLABS - 1) / KILN_REGION_SLABS;
}

static __always_inline __u64 *kiln_row_word(struct kiln_heap_state *heap, __u32 row, __u64 region)
{
	return kiln_slab_word(heap, (KILN_REGION_SLABS + row) * kiln_regions(heap) + region);
}

static __always_inline struct kiln_block *kiln_slab_block(struct kiln_heap_state *heap, __u64 slab, __u32 place)
{
	return (struct kiln_block *)(unsigned long)(KILN_LAYOUT(heap)->start + (slab << KILN_SLAB_SHIFT) + 16 * place);
}

/* Whether a slab with this word has a free block of a class. */
static __always_inline int kiln_serves(__u64 word, __u32 class)
{
	return KILN_CLASS(word) == class &&
	       (KILN_FREES(word) || (KILN_GIVEN(word) + 1) * kiln_class_bytes(class) <= KILN_SLAB_BYTES);
}

/*
 * Takes a free block of a slab whose word is `word`, by one exchange; then `word` is what was seen. NULL if the slab has none, is of another
 * class, or its word has changed.
 */
static __always_inline struct kiln_block *kiln_take_once(struct kiln_heap_state *heap, __u64 slab, __u32 class, __u64 *word)
{
	__u64 before = *word, next = before + KILN_ONE_GIVEN;
	struct kiln_block *block;

	if (!kiln_serves(before, class))
		return 0;
	if (KILN_FREES(before)) {
		block = kiln_slab_block(heap, slab, KILN_FIRST(before));
		next = before - KILN_FIRST(before) + (block->next & KILN_FIRST(~0ull)) - KILN_ONE_FREE;
	} else {
		block = kiln_slab_block(heap, slab, KILN_GIVEN(before) * kiln_class_bytes(class) / 16);
	}
	*word = __sync_val_compare_and_swap(kiln_slab_word(heap, slab), before, next + KILN_ONE_CHANGE);
	return *word == before ? block : 0;
}

/* Takes a free block of a slab; NULL if it has none, or is of another class. */
static __always_inline struct kiln_block *kiln_take(struct kiln_heap_state *heap, __u64 slab, __u32 class)
{
	struct kiln_block *block;
	__u64 word, before;
	__u32 tries = 0;

	if (slab >= KILN_LAYOUT(heap)->slabs)
		return 0;
	word = *(volatile __u64 *)kiln_slab_word(heap, slab);
	do {
		before = word;
		block = kiln_take_once(heap, slab, class, &word);
	} while (!block && word != before && KILN_AGAIN(tries));
	return block;
}

/* The bits of `count` adjacent slabs from one on. */
static __always_inline __u64 kiln_bits(__u64 slab, __u32 count)
{
	return ~0ull >> (KILN_REGION_SLABS - count) << (slab & (KILN_REGION_SLABS - 1));
}

/* Sets the bits of `count` adjacent slabs in a row: they are free from now on, or others may look for a free block there. */
static __always_inline void kiln_give(struct kiln_heap_state *heap, __u32 row, __u64 slab, __u32 count)
{
	__u64 *place = kiln_row_word(heap, row, slab / KILN_REGION_SLABS), mask = kiln_bits(slab, count), bits, seen;
	__u32 tries = 0;

	for (bits = *(volatile __u64 *)place; !(bits & mask) && KILN_AGAIN(tries); bits = seen) {
		seen = __sync_val_compare_and_swap(place, bits, bits | mask);
		if (seen == bits)
			break;
	}
	if (!*(volatile __u64 *)&heap->rows[row])
		*(volatile __u64 *)&heap->rows[row] = 1;
}

/* Where `count` adjacent bits are set, by their first: a bit for each place. */
static __always_inline __u64 kiln_adjacent(__u64 bits, __u32 count)
{
	/* Each step halves what is still to be compared: six steps for 64. */
#pragma unroll
	for (int step = 0; step < 6; step++) {
		bits &= bits >> (count / 2);
		count -= count / 2;
	}
	return bits;
}

/*
 * Clears `count` adjacent bits of a row, beginning to look in a slab's region, and for a class those of slabs that do not serve it any
 * more. Returns the first slab; KILN_NONE if there are none.
 */
KILN_FUNCTION __u64 kiln_claim(struct kiln_heap_state *heap, __u32 row, __u32 count, __u64 near)
{
	__u64 regions = kiln_regions(heap), region = near / KILN_REGION_SLABS, bits, found, slab;
	/* Addresses, not numbers of regions: the verifier does not know them, so it does not follow each turn. */
	volatile __u64 *first = kiln_row_word(heap, row, 0), *end = first + regions;
	volatile __u64 *begin = first + (region < regions ? region : 0), *place = begin;
	__u32 tries = 0;

	if (!regions || !*(volatile __u64 *)&heap->rows[row])
		return KILN_NONE;
	while (KILN_AGAIN(tries)) {
		bits = *place;
		found = bits ? kiln_adjacent(bits, count) : 0;
		if (!found) {
			if (++place >= end)
				place = first;
			if (place == begin)
				break;
			continue;
		}
		slab = (place - first) * KILN_REGION_SLABS + __builtin_popcountll((found & -found) - 1);
		if (__sync_val_compare_and_swap(place, bits, bits & ~kiln_bits(slab, count)) == bits &&
		    (!row || kiln_serves(*(volatile __u64 *)kiln_slab_word(heap, slab), row)))
			return slab;
	}
	/* 0 for one slab; for more, fewer adjacent ones may be there. */
	*(volatile __u64 *)&heap->rows[row] = count / 2;
	return KILN_NONE;
}

/*
 * Takes `count` adjacent slabs that were never used. Returns the first; KILN_NONE if there are none. If they are more than are left
 * of a region, these become free slabs.
 */
KILN_FUNCTION __u64 kiln_fresh(struct kiln_heap_state *heap, __u32 count)
{
	__u64 at = *(volatile __u64 *)&heap->fresh, seen;
	__u32 tries = 0;

	while (at + ((__u64)count << KILN_SLAB_SHIFT) <= heap->limit && KILN_AGAIN(tries)) {
		__u64 slab = (at - KILN_LAYOUT(heap)->start) >> KILN_SLAB_SHIFT;
		__u32 left = KILN_REGION_SLABS - (slab & (KILN_REGION_SLABS - 1)), taken = count <= left ? count : left;

		if (slab + count > KILN_LAYOUT(heap)->slabs)
			return KILN_NONE;
		seen = __sync_val_compare_and_swap(&heap->fresh, at, at + ((__u64)taken << KILN_SLAB_SHIFT));
		if (seen == at) {
			if (taken == count)
				return slab;
			kiln_give(heap, 0, slab, taken);
			seen = *(volatile __u64 *)&heap->fresh;
		}
		at = seen;
	}
	return KILN_NONE;
}

/* Makes slabs that nobody else has a run, a slab of which the first block is taken, or (class 0) free. Returns the first block. */
static __always_inline struct kiln_block *kiln_begin(struct kiln_heap_state *heap, __u64 slab, __u64 class, __u64 given)
{
	volatile __u64 *word = kiln_slab_word(heap, slab);

	*word = (*word & -KILN_ONE_CHANGE) + KILN_ONE_CHANGE + class * KILN_ONE_CLASS + given * KILN_ONE_GIVEN;
	return kiln_slab_block(heap, slab, 0);
}

/* `count` adjacent free slabs. */
static __always_inline __u64 kiln_slabs(struct kiln_heap_state *heap, __u32 count, __u64 near)
{
	__u64 slab = kiln_claim(heap, 0, count, near);

	return slab == KILN_NONE ? kiln_fresh(heap, count) : slab;
}

/* Whether there is such a slab, and it has a free block of a class. */
static __always_inline int kiln_slab_serves(struct kiln_heap_state *heap, __u64 slab, __u32 class)
{
	return slab < KILN_LAYOUT(heap)->slabs && kiln_serves(*(volatile __u64 *)kiln_slab_word(heap, slab), class);
}

/*
 * Makes a slab with free blocks the one that this CPU tries first, if it has none in the one before. Returns which of both others should
 * see; KILN_NONE if none.
 */
static __always_inline __u64 kiln_prefer(struct kiln_heap_state *heap, __u32 class, __u64 slab)
{
	__u64 *preferred = &heap->cpu[kiln_cpu()].slab[class], before = *(volatile __u64 *)preferred;

	if (before != slab && kiln_slab_serves(heap, before, class))
		return slab;
	before = __sync_lock_test_and_set(preferred, slab);
	return before != slab && kiln_slab_serves(heap, before, class) ? before : KILN_NONE;
}

/* A free block of a slab that another CPU tries first. */
KILN_FUNCTION struct kiln_block *kiln_steal(struct kiln_heap_state *heap, __u32 class)
{
	struct kiln_heap_cpu *end = heap->cpu + (heap->cpus & (2 * KILN_CPUS - 1));
	__u32 tries = KILN_TRIES - KILN_CPUS;

	for (struct kiln_heap_cpu *cpu = heap->cpu; cpu < end && KILN_AGAIN(tries); cpu++) {
		struct kiln_block *block = kiln_take(heap, cpu->slab[class], class);

		if (block)
			return block;
	}
	return 0;
}

/*
 * The address of a block that is not in the slab which this CPU tries first: in any other slab, or a run. 0 if there is none, which is
 * counted. The state is an argument: an object that does not allocate has this function, but should not have the state.
 */
KILN_GLOBAL __u64 kiln_allocate_elsewhere(__u64 state, __u64 class)
{
	struct kiln_heap_state *heap = (struct kiln_heap_state *)(unsigned long)state;
	struct kiln_heap_cpu *cpu = &heap->cpu[kiln_cpu()];
	__u32 row = class < KILN_RUN ? class : 0, count = row ? 1 : class - KILN_RUN + 1;
	__u64 near = cpu->slab[row], slab = KILN_NONE;
	struct kiln_block *block = 0;

	if (!KILN_LAYOUT(heap)->start || count > KILN_REGION_SLABS)
		goto failed;
	if (row) {
		slab = kiln_claim(heap, row, 1, near);
		if (slab != KILN_NONE)
			block = kiln_take(heap, slab, row);
	}
	if (!block) {
		slab = kiln_slabs(heap, count, near);
		if (slab != KILN_NONE)
			block = kiln_begin(heap, slab, row ? row : KILN_RUN, count);
		else if (row)
			block = kiln_steal(heap, row);
		if (!block)
			goto failed;
	}
	if (!row)
		cpu->slab[0] = slab;
	else if (kiln_slab_serves(heap, slab, row) && (slab = kiln_prefer(heap, row, slab)) != KILN_NONE)
		kiln_give(heap, row, slab, 1);
	return (__u64)(unsigned long)block;
failed:
	/* Next time all is looked at: a bit that was set while a look ended may not be known. */
	heap->rows[row] = heap->rows[0] = 1;
	__sync_fetch_and_add(&cpu->failures, 1);
	return 0;
}

/* A block's memory, by its class; from KILN_RUN on, by how many more slabs than one it takes. */
KILN_FUNCTION void *kiln_allocate(__u32 class)
{
	struct kiln_heap_state *heap = kiln_state();
	struct kiln_heap_cpu *cpu = &heap->cpu[kiln_cpu()];
	struct kiln_block *block = 0;
	__u64 bytes, slab, word;

	if (class < KILN_RUN) {
		bytes = kiln_class_bytes(class);
		slab = cpu->slab[class];
		if (KILN_LAYOUT(heap)->start && slab < KILN_LAYOUT(heap)->slabs) {
			word = *(volatile __u64 *)kiln_slab_word(heap, slab);
			block = kiln_take_once(heap, slab, class, &word);
		}
	} else {
		bytes = (__u64)(class - KILN_RUN + 1) << KILN_SLAB_SHIFT;
	}
	if (!block)
		block = (struct kiln_block *)(unsigned long)kiln_allocate_elsewhere((__u64)(unsigned long)heap, class);
	if (!block)
		return 0;
	block->state = KILN_ALLOCATED | (class < KILN_RUN ? class : KILN_RUN);
	__sync_fetch_and_add(&cpu->allocated_bytes, bytes);
	return block->memory;
}

/* Memory of the heap, aligned to 8 bytes and not cleared; NULL when there is none. At most 1 MiB less 8 bytes. */
static __always_inline void *kiln_malloc(__u64 bytes)
{
	return kiln_allocate(bytes <= (1u << 20) - 8 ? kiln_class_of(bytes + 8) : KILN_RUN + KILN_REGION_SLABS);
}

/* An allocated block. */
struct kiln_found {
	struct kiln_block *block;
	__u64 word, slab; /* its slab, and the word of that */
	__u32 class; /* 0: kiln_malloc did not give this memory */
	__u32 at; /* where it begins in the slab */
	__u32 bytes; /* header included */
};

static __always_inline struct kiln_found kiln_look(struct kiln_heap_state *heap, void *memory)
{
	__u64 address = (__u64)(unsigned long)memory - 8, from = address - KILN_LAYOUT(heap)->start;
	struct kiln_found found = { .block = (struct kiln_block *)(unsigned long)address };
	__u32 class;

	found.slab = from >> KILN_SLAB_SHIFT;
	if (address >= heap->fresh || found.slab >= KILN_LAYOUT(heap)->slabs || from & 7)
		return found;
	found.at = from & (KILN_SLAB_BYTES - 1);
	found.word = *(volatile __u64 *)kiln_slab_word(heap, found.slab);
	class = KILN_CLASS(found.word);
	found.bytes = class == KILN_RUN ? KILN_GIVEN(found.word) << KILN_SLAB_SHIFT : kiln_class_bytes(class);
	if (found.bytes && found.block->state == (KILN_ALLOCATED | class) && found.at % found.bytes == 0 &&
	    (class == KILN_RUN || found.at < KILN_GIVEN(found.word) * found.bytes))
		found.class = class;
	return found;
}

/*
 * A slab's word when the block at `at` bytes was freed too: if all are free then, the slab is. The change is not counted yet.
 */
static __always_inline __u64 kiln_with_free(__u64 word, __u32 at)
{
	if (KILN_FREES(word) + 1 < KILN_GIVEN(word))
		return word - KILN_FIRST(word) + at / 16 + KILN_ONE_FREE;
	return word & -KILN_ONE_CHANGE;
}

/*
 * Puts a block that is marked as free into its slab, and says where others find it. Returns 0. The state is an argument as for
 * kiln_allocate_elsewhere.
 */
KILN_GLOBAL int kiln_free_elsewhere(__u64 state, __u64 address)
{
	struct kiln_heap_state *heap = (struct kiln_heap_state *)(unsigned long)state;
	__u64 from = address - KILN_LAYOUT(heap)->start, slab = from >> KILN_SLAB_SHIFT, next, seen;
	__u64 word = *(volatile __u64 *)kiln_slab_word(heap, slab);
	__u32 tries = 0, row = KILN_ROWS, class = KILN_CLASS(word), count = 1;

	if (class == KILN_RUN) {
		kiln_begin(heap, slab, 0, 0);
		row = 0;
		count = KILN_GIVEN(word);
	}
	for (; class != KILN_RUN && KILN_AGAIN(tries); word = seen) {
		((struct kiln_block *)(unsigned long)address)->next = KILN_FIRST(word);
		next = kiln_with_free(word, from & (KILN_SLAB_BYTES - 1));
		seen = __sync_val_compare_and_swap(kiln_slab_word(heap, slab), word, next + KILN_ONE_CHANGE);
		if (seen == word) {
			if (!KILN_CLASS(next)) {
				row = 0;
			} else if (!kiln_serves(word, class)) {
				row = class;
				slab = kiln_prefer(heap, class, slab);
			}
			break;
		}
	}
	if (row < KILN_ROWS && slab != KILN_NONE)
		kiln_give(heap, row, slab, count);
	return 0;
}

/*
 * Frees memory. NULL is allowed. A second time, or an address that kiln_malloc did not give, changes nothing but `bad_frees`, unless
 * a block of the slab begins there and the eight bytes before it say that it is allocated.
 */
KILN_FUNCTION void kiln_free(void *memory)
{
	struct kiln_heap_state *heap = kiln_state();
	struct kiln_found found;
	__u64 next;

	if (!memory)
		return;
	found = kiln_look(heap, memory);
	if (!found.class || __sync_val_compare_and_swap(&found.block->state, KILN_ALLOCATED | found.class,
							KILN_FREE | found.class) != (KILN_ALLOCATED | found.class)) {
		__sync_fetch_and_add(&heap->bad_frees, 1);
		return;
	}
	__sync_fetch_and_add(&heap->cpu[kiln_cpu()].freed_bytes, found.bytes);
	next = kiln_with_free(found.word, found.at);
	if (KILN_CLASS(next) && found.class != KILN_RUN && kiln_serves(found.word, found.class)) {
		found.block->next = KILN_FIRST(found.word);
		if (__sync_val_compare_and_swap(kiln_slab_word(heap, found.slab), found.word, next + KILN_ONE_CHANGE) == found.word)
			return;
	}
	kiln_free_elsewhere((__u64)(unsigned long)heap, (__u64)(unsigned long)found.block);
}

/*
 * Memory of another size that begins with the same bytes. NULL when there is none, and then the old memory stays; NULL too for
 * an address that kiln_malloc did not give.
 */
KILN_FUNCTION void *kiln_realloc(void *memory, __u64 bytes)
{
	struct kiln_found found;
	__u64 *from = memory, *to;

	if (!memory)
		return kiln_malloc(bytes);
	found = kiln_look(kiln_state(), memory);
	if (!found.class)
		return 0;
	if (bytes <= found.bytes - 8)
		return memory;
	to = kiln_malloc(bytes);
	if (!to)
		return 0;
	for (__u64 *end = from + (found.bytes - 8) / 8, *at = to; from < end; from++, at++)
		*at = *from;
	kiln_free(memory);
	return to;
}

#ifndef __bpf__
/* Bytes of the table of so many slabs, in whole pages. */
static inline __u64 kiln_table_bytes(__u64 slabs)
{
	__u64 regions = (slabs + KILN_REGION_SLABS - 1) / KILN_REGION_SLABS;

	return (regions * (KILN_REGION_SLABS + KILN_ROWS) * 8 + KILN_PAGE_BYTES - 1) & -(__u64)KILN_PAGE_BYTES;
}

/* Divides a range of zeros into the table and slabs, none of which is supplied yet. */
static inline void kiln_heap_divide(struct kiln_heap_state *heap, __u64 start, __u64 bytes)
{
	__u64 table = kiln_table_bytes(bytes >> KILN_SLAB_SHIFT);

	if (table > bytes)
		table = bytes;
	heap->table = start;
	heap->slabs = (bytes - table) >> KILN_SLAB_SHIFT;
	heap->fresh = heap->limit = start + table;
	/* Last: programs allocate when it is there. */
	__atomic_store_n(&heap->start, start + table, __ATOMIC_RELEASE);
}
#endif

#if !defined(__bpf__) && !defined(KILN_USER)
/* Native code: gives the allocator a range. Programs' user space does it from outside. */
static inline void kiln_heap_supply(void *start, __u64 bytes)
{
	struct kiln_heap_state *heap = kiln_state();

	__builtin_memset(start, 0, kiln_table_bytes(bytes >> KILN_SLAB_SHIFT));
	kiln_heap_divide(heap, (__u64)(unsigned long)start, bytes);
	heap->limit = (__u64)(unsigned long)start + bytes;
}
#endif

#endif
