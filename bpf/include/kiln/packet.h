/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Between the packet and the heap: copy, compare, hash, tokens and numbers, a word at a time.
 *
 *	set key 7 0 128\r\n<128 bytes>\r\n
 *	    ^ at                                  // a distance from the packet's first byte (ctx->data)
 *	kiln_packet_token(ctx, at, 250)           // 3: the bytes of the key
 *	kiln_packet_take(ctx, at, memory, 3)      // copies them to the heap
 *
 * Each primitive is a global function: the kernel verifies it once per program, and a call of it costs about a dozen
 * instructions, however often it is called. So the packet is given by the context and a distance, and memory by its address. A
 * primitive checks the packet's end and its arguments, and changes nothing if it fails. The packet's pointers that the caller
 * has stay valid.
 *
 * Programs at TC define KILN_PACKET_CONTEXT as `struct __sk_buff` first. What is not in the linear part of their buffer is
 * beyond the packet's end: call bpf_skb_pull_data before.
 */
#ifndef KILN_PACKET_H
#define KILN_PACKET_H

#ifndef __bpf__
#error "kiln/packet.h is for programs"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kiln/packet.h needs a little-endian machine"
#endif

#include <kiln/heap.h>

#ifndef KILN_PACKET_CONTEXT
#define KILN_PACKET_CONTEXT struct xdp_md
#endif
/* The largest distance, and the most bytes that are copied or compared at once. */
#define KILN_PACKET_MOST 2047u
/* The longest token, and the most bytes that are hashed. */
#define KILN_PACKET_TOKEN_MOST 255u
/* The longest number: nineteen digits do not overflow a signed word. */
#define KILN_PACKET_DIGITS 18u

/* Weak, so that several objects may be linked; not static, so that the kernel verifies it on its own. */
#define KILN_PACKET_FUNCTION __attribute__((noinline, weak))

/* A mask that clang neither leaves out nor moves: the kernel's verifier has to see it, whatever clang knows. */
static __always_inline __u64 kiln_packet_masked(__u64 distance, const __u64 most)
{
	asm volatile("%0 &= %1" : "+r"(distance) : "i"(most));
	return distance;
}

/*
 * Opens the packet at a distance: `packet` is its byte there, `end` its end. Leaves the function with `failed` unless the packet
 * has `bytes` bytes from there. The mask tells the verifier how many that are, which clang's comparisons may not.
 */
#define KILN_PACKET_OPEN(distance, bytes, most, failed)                                            \
	void *end = (void *)(long)ctx->data_end;                                                   \
	void *packet = (void *)(long)ctx->data + kiln_packet_masked(distance, KILN_PACKET_MOST);   \
                                                                                                   \
	if ((distance) > KILN_PACKET_MOST || (bytes) > (most))                                     \
		return failed;                                                                     \
	(bytes) = kiln_packet_masked(bytes, most);                                                 \
	if (packet + (bytes) > end)                                                                \
		return failed

/* Does `each(type, count, distance)` for words that cover `bytes` bytes. The last ones overlap those before. */
#define KILN_PACKET_COVER(each)                                                                    \
	do {                                                                                       \
		/* Apart from `bytes`, so that what the loop tells the verifier of those stays out of it. */ \
		__u64 kiln_last = kiln_packet_masked(bytes - 64, KILN_PACKET_MOST);                \
                                                                                                   \
		if (bytes >= 64) {                                                                 \
			for (__u64 kiln_done = 0; kiln_done + 64 < bytes; kiln_done += 64)         \
				each(__u64, 8, kiln_done);                                         \
			each(__u64, 8, kiln_last);                                                 \
		} else if (bytes >= 32) {                                                          \
			each(__u64, 4, 0);                                                         \
			each(__u64, 4, bytes - 32);                                                \
		} else if (bytes >= 16) {                                                          \
			each(__u64, 2, 0);                                                         \
			each(__u64, 2, bytes - 16);                                                \
		} else if (bytes >= 8) {                                                           \
			each(__u64, 1, 0);                                                         \
			each(__u64, 1, bytes - 8);                                                 \
		} else if (bytes >= 4) {                                                           \
			each(__u32, 1, 0);                                                         \
			each(__u32, 1, bytes - 4);                                                 \
		} else if (bytes >= 2) {                                                           \
			each(__u16, 1, 0);                                                         \
			each(__u16, 1, bytes - 2);                                                 \
		} else if (bytes) {                                                                \
			each(__u8, 1, 0);                                                          \
		}                                                                                  \
	} while (0)

/* Values of the packet and of memory at a distance. Leaves the function where the packet ends before. */
#define KILN_PACKET_VALUES(type, count, distance)                                                  \
	__u64 kiln_at = kiln_packet_masked(distance, KILN_PACKET_MOST);                            \
	type *kiln_packet = packet + kiln_at, *kiln_memory = (void *)(unsigned long)memory + kiln_at; \
	if ((void *)(kiln_packet + (count)) > end)                                                 \
		return -1

#define KILN_PACKET_TAKE(type, count, distance)                                                    \
	do {                                                                                       \
		KILN_PACKET_VALUES(type, count, distance);                                         \
		_Pragma("unroll") for (int kiln_word = 0; kiln_word < (count); kiln_word++)        \
			kiln_memory[kiln_word] = kiln_packet[kiln_word];                           \
	} while (0)

#define KILN_PACKET_PUT(type, count, distance)                                                     \
	do {                                                                                       \
		KILN_PACKET_VALUES(type, count, distance);                                         \
		_Pragma("unroll") for (int kiln_word = 0; kiln_word < (count); kiln_word++)        \
			kiln_packet[kiln_word] = kiln_memory[kiln_word];                           \
	} while (0)

#define KILN_PACKET_COMPARE(type, count, distance)                                                 \
	do {                                                                                       \
		KILN_PACKET_VALUES(type, count, distance);                                         \
		__u64 kiln_differ = 0;                                                             \
		_Pragma("unroll") for (int kiln_word = 0; kiln_word < (count); kiln_word++)        \
			kiln_differ |= kiln_packet[kiln_word] ^ kiln_memory[kiln_word];            \
		if (kiln_differ)                                                                   \
			return 0;                                                                  \
	} while (0)

KILN_PACKET_FUNCTION int kiln_packet_take_bytes(KILN_PACKET_CONTEXT *ctx, __u64 at, __u64 memory, __u64 bytes)
{
	KILN_PACKET_OPEN(at, bytes, KILN_PACKET_MOST, -1);

	KILN_PACKET_COVER(KILN_PACKET_TAKE);
	return 0;
}

KILN_PACKET_FUNCTION int kiln_packet_put_bytes(KILN_PACKET_CONTEXT *ctx, __u64 at, __u64 memory, __u64 bytes)
{
	KILN_PACKET_OPEN(at, bytes, KILN_PACKET_MOST, -1);

	KILN_PACKET_COVER(KILN_PACKET_PUT);
	return 0;
}

KILN_PACKET_FUNCTION int kiln_packet_compare_bytes(KILN_PACKET_CONTEXT *ctx, __u64 at, __u64 memory, __u64 bytes)
{
	KILN_PACKET_OPEN(at, bytes, KILN_PACKET_MOST, -1);

	KILN_PACKET_COVER(KILN_PACKET_COMPARE);
	return 1;
}

/* Copies bytes from the packet to the heap: 0, or -1 if the packet has fewer or if they are more than KILN_PACKET_MOST. */
static __always_inline int kiln_packet_take(KILN_PACKET_CONTEXT *ctx, __u64 at, void *memory, __u64 bytes)
{
	return kiln_packet_take_bytes(ctx, at, (__u64)(unsigned long)memory, bytes);
}

/* Copies bytes from the heap to the packet: 0, or -1 if there is no room or if they are more than KILN_PACKET_MOST. */
static __always_inline int kiln_packet_put(KILN_PACKET_CONTEXT *ctx, __u64 at, const void *memory, __u64 bytes)
{
	return kiln_packet_put_bytes(ctx, at, (__u64)(unsigned long)memory, bytes);
}

/* Whether the packet and the heap have the same bytes: 1 or 0; -1 as for kiln_packet_take. */
static __always_inline int kiln_packet_equals(KILN_PACKET_CONTEXT *ctx, __u64 at, const void *memory, __u64 bytes)
{
	return kiln_packet_compare_bytes(ctx, at, (__u64)(unsigned long)memory, bytes);
}

/* How many bytes come before the lowest mark. A mark is the highest bit of a byte; there is one. */
static __always_inline __u64 kiln_packet_before(__u64 marks)
{
	return ((((marks & -marks) - 1) >> 7) & 0x0101010101010101ull) * 0x0101010101010101ull >> 56;
}

/*
 * How many bytes come before the first space or control character (CR, LF, ...). -1 if the packet ends before, or if they are more
 * than `most`, which is KILN_PACKET_TOKEN_MOST or less.
 */
KILN_PACKET_FUNCTION int kiln_packet_token(KILN_PACKET_CONTEXT *ctx, __u64 at, __u64 most)
{
	__u64 done = 0, nothing = 0;
	KILN_PACKET_OPEN(at, nothing, 0, -1);

	if (most > KILN_PACKET_TOKEN_MOST)
		return -1;
	for (; done <= KILN_PACKET_TOKEN_MOST; done += 8) {
		const __u64 *now = packet + kiln_packet_masked(done, KILN_PACKET_TOKEN_MOST);
		__u64 word, marks;

		if ((const void *)(now + 1) > end)
			break;
		word = *now;
		marks = (word - 0x2121212121212121ull) & ~word & 0x8080808080808080ull;
		if (marks) {
			done += kiln_packet_before(marks);
			return done <= most ? (int)done : -1;
		}
	}
	/* The verifier follows what is left once, not for each length: it no longer knows `done`. */
	asm volatile("%0 ^= %1\n%0 ^= %1" : "+r"(done) : "r"(at));
	done = kiln_packet_masked(done, 2 * KILN_PACKET_TOKEN_MOST + 1);
	packet += done;
	for (int more = 0; more < 8; more++) {
		if (packet + more + 1 > end || done + more > most)
			return -1;
		if (((__u8 *)packet)[more] <= ' ')
			return (int)(done + more);
	}
	return -1;
}

/*
 * The decimal number at a distance, and in `digits` how many digits it has, at most KILN_PACKET_DIGITS. -1 if there is none, if it
 * has more, or if the packet ends before another character.
 */
KILN_PACKET_FUNCTION __s64 kiln_packet_number(KILN_PACKET_CONTEXT *ctx, __u64 at, __u32 *digits)
{
	__u64 nothing = 0;
	__s64 number = 0;
	KILN_PACKET_OPEN(at, nothing, 0, -1);

	for (__u32 digit = 0; digit <= KILN_PACKET_DIGITS; digit++) {
		const __u8 *now = packet + kiln_packet_masked(digit, 31);
		__u64 value;

		if ((const void *)(now + 1) > end)
			return -1;
		value = (__u64)*now - '0';
		if (value > 9) {
			if (digits)
				*digits = digit;
			return digit ? number : -1;
		}
		number = number * 10 + value;
	}
	return -1;
}

/* Whether the packet has these bytes at a distance: those of `word`, the lowest first, 1 to 8. */
KILN_PACKET_FUNCTION int kiln_packet_begins(KILN_PACKET_CONTEXT *ctx, __u64 at, __u64 word, __u64 bytes)
{
	KILN_PACKET_OPEN(at, bytes, 15u, 0);

	if (packet + 8 <= end)
		return bytes && bytes <= 8 && !((*(__u64 *)packet ^ word) << (64 - 8 * bytes & 63));
	for (int byte = 0; byte < 8; byte++) {
		if (byte >= bytes)
			return byte > 0;
		if (packet + byte + 1 > end || ((__u8 *)packet)[byte] != (__u8)(word >> 8 * byte))
			return 0;
	}
	return 0;
}

/* Two odd multipliers, as secret as the seed that they are made of. */
struct kiln_packet_keys {
	__u64 low, high;
};

static __always_inline __u64 kiln_packet_key(__u64 seed)
{
	seed = (seed ^ 0xd6e8feb86659fd93ull) * 0x9e3779b97f4a7c15ull;
	return (seed ^ seed >> 32) | 1;
}

/*
 * Each half of a word has a secret multiplier of its own: whatever changes in a word, at least the upper 33 bits of the result
 * change by a difference that depends on the seed. With a known multiplier, a change of the highest bit only would be the same
 * change for every seed, and a change of the next word could undo it.
 */
static __always_inline __u64 kiln_packet_mix(__u64 hash, __u64 word, struct kiln_packet_keys keys)
{
	hash ^= word;
	return (hash & 0xffffffff) * keys.low + (hash >> 32) * keys.high;
}

/*
 * A hash of `bytes` bytes, at most KILN_PACKET_TOKEN_MOST: words, each mixed in by multiplications; then the last word, which
 * overlaps the one before it, or the bytes if there are fewer than 8. 0 if the packet has fewer. `seed` should be 64 random bits
 * that are kept secret: then a sender cannot choose bytes whose hashes are the same.
 */
KILN_PACKET_FUNCTION __u64 kiln_packet_hash(KILN_PACKET_CONTEXT *ctx, __u64 at, __u64 bytes, __u64 seed)
{
	const __u64 low = kiln_packet_key(seed);
	const struct kiln_packet_keys keys = { low, kiln_packet_key(low) };
	__u64 hash = kiln_packet_mix(seed, bytes, keys), word = 0;
	KILN_PACKET_OPEN(at, bytes, KILN_PACKET_TOKEN_MOST, 0);

	if (bytes >= 8) {
		__u64 last = kiln_packet_masked(bytes - 8, KILN_PACKET_TOKEN_MOST);

		for (__u64 done = 0; done + 8 < bytes; done += 8) {
			const __u64 *now = packet + kiln_packet_masked(done, KILN_PACKET_TOKEN_MOST);

			if ((const void *)(now + 1) > end)
				return 0;
			hash = kiln_packet_mix(hash, *now, keys);
		}
		packet += last;
		if (packet + 8 > end)
			return 0;
		word = *(const __u64 *)packet;
	} else if (bytes >= 4) {
		__u32 *first = packet, *second = packet + kiln_packet_masked(bytes - 4, 7);

		if ((void *)(first + 1) > end || (void *)(second + 1) > end)
			return 0;
		word = *first | (__u64)*second << 32;
	} else if (bytes) {
		__u8 *first = packet, *middle = packet + kiln_packet_masked(bytes / 2, 3);
		__u8 *last = packet + kiln_packet_masked(bytes - 1, 3);

		if (first + 1 > (__u8 *)end || middle + 1 > (__u8 *)end || last + 1 > (__u8 *)end)
			return 0;
		word = first[0] | (__u64)middle[0] << 8 | (__u64)last[0] << 16;
	}
	/* The lowest bits, which choose a bucket, of all the bits. */
	hash = kiln_packet_mix(hash, word, keys);
	hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

#endif
