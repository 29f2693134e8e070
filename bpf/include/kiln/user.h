/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * User space's side of a heap, for C: maps the heap of a loaded object where its pointers are valid, so that the same headers
 * work on the same structures, with the same locks and the same allocator.
 *
 *	#include <kiln/user.h>                     // first: it makes the other headers work on a mapped heap
 *	#include <kiln/hash.h>
 *
 *	kiln_heap_map(fd, address, bytes);         // the arena's file descriptor, and where the loader has mapped it
 *	kiln_heap_supply(variable_bytes, 1 << 20); // memory for kiln_malloc, here and in programs
 *	kiln_user_lock(&shared->lock);
 *	found = kiln_hash_find(&shared->own, 42);
 *	kiln_user_unlock(&shared->lock);
 *
 * The loader's process has the heap mapped already, at the address that libbpf gives (`bpf_map__initial_value`); there,
 * kiln_heap_found(address, bytes) does the rest.
 */
#ifndef KILN_USER_H
#define KILN_USER_H

#ifdef __bpf__
#error "kiln/user.h is for user space"
#endif

#define KILN_USER
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <kiln/heap.h>

/* Where the heap is mapped, and where its slabs are; 0 while that is not known. */
static struct {
	char *address;
	__u64 bytes;
	struct kiln_layout layout;
} kiln_user_heap;

/* The state is looked for in this many pages at either end of the heap. */
#define KILN_STATE_PAGES 256

/* Finds the allocator's state in a mapped heap: 0, or -ENOENT when there is none (the program does not allocate). */
static inline int kiln_heap_found(void *address, __u64 bytes)
{
	__u64 pages = bytes / KILN_PAGE_BYTES, at;

	for (at = 0; at < 2 * KILN_STATE_PAGES; at++) {
		__u64 page = at < KILN_STATE_PAGES ? pages - 1 - at : at - KILN_STATE_PAGES;
		struct kiln_heap_state *state;

		if (page >= pages)
			continue;
		state = (struct kiln_heap_state *)((char *)address + page * KILN_PAGE_BYTES);
		if (state->magic == KILN_HEAP_MAGIC) {
			kiln_user_state = state;
			kiln_user_heap.address = address;
			kiln_user_heap.bytes = bytes;
			return 0;
		}
	}
	return -ENOENT;
}

/* Maps a heap at its address: 0, or -errno. -EEXIST: something else is mapped there in this process. */
static inline int kiln_heap_map(int arena, void *address, __u64 bytes)
{
	void *mapped = mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, arena, 0);

	if (mapped == MAP_FAILED)
		return -errno;
	kiln_heap_found(address, bytes);
	return 0;
}

/* Where slabs and table are, as the state says, if all of them are in the heap. Asked again until memory is supplied. */
static struct kiln_layout *kiln_user_layout(void)
{
	struct kiln_layout *layout = &kiln_user_heap.layout;
	volatile struct kiln_heap_state *state = kiln_user_state;
	__u64 heap = (__u64)(unsigned long)kiln_user_heap.address, end = heap + kiln_user_heap.bytes;
	struct kiln_layout told;

	if (layout->start || !state || !state->start)
		return layout;
	told = (struct kiln_layout){ state->start, state->table, state->slabs };
	if (told.start < heap || told.start > end || told.table < heap || told.table > end || (told.start | told.table) & 7)
		return layout;
	if (told.slabs <= (end - told.start) >> KILN_SLAB_SHIFT && kiln_table_bytes(told.slabs) <= end - told.table)
		*layout = told;
	return layout;
}

static inline int kiln_populate(__u64 address, __u64 bytes)
{
	return bytes && madvise((void *)(unsigned long)address, bytes, MADV_POPULATE_WRITE) ? -errno : 0;
}

/* The first time, divides the room from `room` to `end` into table and slabs. 0, or -errno. */
static inline int kiln_heap_begin(struct kiln_heap_state *state, __u64 room, __u64 end)
{
	__u64 table = kiln_table_bytes((end - room) >> KILN_SLAB_SHIFT);
	int failed;

	if (*(volatile __u64 *)&state->start)
		return 0;
	failed = kiln_populate(room, table < end - room ? table : end - room);
	if (!failed)
		kiln_heap_divide(state, room, end - room);
	return failed;
}

/*
 * Makes `bytes` never used bytes available to kiln_malloc, in whole slabs of 16 KiB, or as many as the heap has: populates their pages and
 * moves `limit`. `variable_bytes` is the size of the object's arena variables, which bpf_map__initial_value gives. Returns 0;
 * -ENOENT: the program does not allocate, or no heap is mapped; -ENOSPC: variables take all of the heap; -EINVAL: the state is not that
 * of this heap; or what madvise returns. One thread of one process may supply a heap at a time (crates/heap/src/supply.rs is another).
 */
static inline int kiln_heap_supply(__u64 variable_bytes, __u64 bytes)
{
	struct kiln_heap_state *state = kiln_user_state;
	__u64 heap = (__u64)(unsigned long)kiln_user_heap.address, end = heap + kiln_user_heap.bytes;
	__u64 room = heap + KILN_PAGE_BYTES, fresh, limit, left;
	struct kiln_layout *layout;
	int failed;

	if (!state)
		return -ENOENT;
	variable_bytes = (variable_bytes + KILN_PAGE_BYTES - 1) & -(__u64)KILN_PAGE_BYTES;
	if (variable_bytes > kiln_user_heap.bytes - KILN_PAGE_BYTES)
		return -ENOSPC;
	/* Variables are at either end. If they are at the other one, the first page has the null pointer. */
	if ((__u64)(unsigned long)state - heap < variable_bytes)
		room = heap + variable_bytes;
	else
		end -= variable_bytes;
	failed = kiln_heap_begin(state, room, end);
	if (failed)
		return failed;
	layout = kiln_user_layout();
	fresh = *(volatile __u64 *)&state->fresh;
	limit = *(volatile __u64 *)&state->limit;
	end = layout->start + (layout->slabs << KILN_SLAB_SHIFT);
	if (!layout->start || layout->table != room || fresh < layout->start || limit < fresh || limit > end)
		return -EINVAL;
	left = end - fresh;
	if (bytes < left)
		bytes = (bytes + KILN_SLAB_BYTES - 1) & -(__u64)KILN_SLAB_BYTES;
	if (bytes > left)
		bytes = left;
	if (fresh + bytes <= limit)
		return 0;
	failed = kiln_populate(limit, fresh + bytes - limit);
	if (!failed)
		__atomic_store_n(&state->limit, fresh + bytes, __ATOMIC_RELEASE);
	return failed;
}

/* A lock word that user space has taken: this bit and the thread's id. Programs write 1. */
#define KILN_USER_HOLDS 0x80000000u

/* Takes a lock of programs. Who holds it can be seen, so that it can be released for a thread that has died. */
static inline void kiln_user_lock(kiln_spinlock_t *lock)
{
	__u32 own = KILN_USER_HOLDS | (__u32)syscall(SYS_gettid);

	while (__sync_val_compare_and_swap(&lock->held, 0, own))
		sched_yield();
}

static inline void kiln_user_unlock(kiln_spinlock_t *lock)
{
	__sync_lock_test_and_set(&lock->held, 0);
}

/* Whether a thread has ended: killed, or waiting for its parent. */
static inline int kiln_thread_is_dead(__u32 thread)
{
	char path[64], state = 'X';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/stat", thread);
	file = fopen(path, "r");
	if (!file)
		return errno == ENOENT;
	/* 17 (name) S ...; the name may have parentheses. */
	for (int c = fgetc(file); c != EOF; c = fgetc(file))
		if (c == ')' && fgetc(file) == ' ')
			state = fgetc(file);
	fclose(file);
	return state == 'Z' || state == 'X';
}

/*
 * Releases a lock that a dead thread of user space holds; returns whether it did. What the lock protects may be half changed:
 * check or rebuild it first, while nobody else can enter.
 */
static inline int kiln_user_break(kiln_spinlock_t *lock)
{
	__u32 held = *(volatile __u32 *)&lock->held;

	/* Programs that wait may note that meanwhile: then once more. */
	for (int tries = 0; tries < 100; tries++) {
		__u32 seen;

		if (!(held & KILN_USER_HOLDS) || !kiln_thread_is_dead(held & ~(KILN_USER_HOLDS | KILN_WAIT_MASK)))
			return 0;
		seen = __sync_val_compare_and_swap(&lock->held, held, 0);
		if (seen == held)
			return 1;
		held = seen;
	}
	return 0;
}

#endif
