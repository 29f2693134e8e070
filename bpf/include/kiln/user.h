/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * User space's side of a heap, for C: maps the heap of a loaded object where its pointers are valid, so that the same headers
 * work on the same structures, with the same locks and the same allocator.
 *
 *	#include <kiln/user.h>                     // first: it makes the other headers work on a mapped heap
 *	#include <kiln/hash.h>
 *
 *	kiln_heap_map(fd, address, bytes);         // the arena's file descriptor, and where the loader has mapped it
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

	if (!(held & KILN_USER_HOLDS) || !kiln_thread_is_dead(held & ~KILN_USER_HOLDS))
		return 0;
	return __sync_bool_compare_and_swap(&lock->held, held, 0);
}

#endif
