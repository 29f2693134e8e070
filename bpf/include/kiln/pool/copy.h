/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Copying between objects and the program's buffers, in the order that other CPUs see. Included by kiln/pool.h. */
#ifndef KILN_POOL_COPY_H
#define KILN_POOL_COPY_H

/* Bytes that are copied at once: one check of the buffer's end for all of them. */
#define KILN_POOL_CHUNK 128u
/* Chunks of the largest object. */
#define KILN_POOL_LIST ((KILN_POOL_MAX + KILN_POOL_CHUNK - 1) / KILN_POOL_CHUNK)
/* The bits of an object's size in bytes, the largest of which is a power of two. */
#define KILN_POOL_SIZES (2 * KILN_POOL_MAX - 1)

#define KILN_POOL_ONCE(place) (*(volatile typeof(place) *)&(place))

/*
 * What stands before it in the program happens before what stands after it, for every CPU. x86 keeps the order of loads
 * and the order of stores, so the compiler is all that must be told. Elsewhere an atomic addition is a full barrier.
 */
#if defined(__TARGET_ARCH_x86)
#define kiln_pool_order() asm volatile("" ::: "memory")
#else
static __u64 kiln_pool_fence;
#define kiln_pool_order() ((void)__sync_fetch_and_add(&kiln_pool_fence, 0))
#endif

static __always_inline int kiln_pool_same(const KILN_POOL_ID *one, const KILN_POOL_ID *other)
{
	const __u64 *left = (const __u64 *)one, *right = (const __u64 *)other;
	__u64 difference = 0;

#pragma unroll
	for (__u32 at = 0; at < sizeof(KILN_POOL_ID) / 8; at++)
		difference |= left[at] ^ right[at];
	return !difference;
}

/*
 * Some bits of a number. What the verifier learns of the number afterwards it does not learn of these bits: else it would
 * follow what comes after a loop once for each number of turns.
 */
static __always_inline __u32 kiln_pool_bits(__u32 number, __u32 mask)
{
	asm volatile("" : "+r"(number));
	return number & mask;
}

/* The same for a whole number. */
static __always_inline __u64 kiln_pool_apart(__u64 number)
{
	asm volatile("%0 ^= 0" : "+r"(number));
	return number;
}

/* 1 when `at` is below `bound`, else 0: without a branch, both ways of which the verifier would follow. */
static __always_inline __u64 kiln_pool_below(__u64 at, __u64 bound)
{
	__u64 negative = at - bound;

	/* Nor does the compiler make one. */
	asm volatile("%0 >>= 63" : "+r"(negative));
	return negative;
}

/*
 * Copies a whole chunk; whether the buffer held it. `own` is the side, `to` or `from`, that belongs to the program's buffer
 * and ends at `end`.
 */
static __always_inline int kiln_pool_copy_chunk(void *to, const void *from, const void *own, const void *end)
{
	if (own + KILN_POOL_CHUNK > end)
		return 0;
#pragma unroll
	for (__u32 word = 0; word < KILN_POOL_CHUNK / 8; word++)
		((__u64 *)to)[word] = ((const __u64 *)from)[word];
	return 1;
}

/* Copies less than a chunk, `bytes` modulo its size; whether the buffer held it. */
static __always_inline int kiln_pool_copy_rest(void *to, const void *from, const void *own, const void *end,
					       __u32 bytes)
{
	__u32 words = kiln_pool_bits(bytes, KILN_POOL_CHUNK - 8), tail = kiln_pool_bits(bytes, 7);

	bytes &= KILN_POOL_CHUNK - 8;
	for (__u32 at = 0; at < KILN_POOL_CHUNK - 8; at += 8) {
		if (at >= bytes)
			break;
		if (own + at + 8 > end)
			return 0;
		*(__u64 *)(to + at) = *(const __u64 *)(from + at);
	}
	to += words;
	from += words;
	own += words;
	for (__u32 at = 0; at < 7; at++) {
		if (at >= tail)
			break;
		if (own + at + 1 > end)
			return 0;
		*(__u8 *)(to + at) = *(const __u8 *)(from + at);
	}
	return 1;
}

#endif
