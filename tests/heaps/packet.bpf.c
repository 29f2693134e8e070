/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Each primitive of kiln/packet.h in a program of its own: an order, and behind it the bytes that it is about. SITES says how
 * often the primitive is called. CLASSIFIER makes programs for TC of them.
 */
#ifdef CLASSIFIER
#define KILN_PACKET_CONTEXT struct __sk_buff
#define HOOK "tc"
#else
#define KILN_PACKET_CONTEXT struct xdp_md
#define HOOK "xdp"
#endif
#include <kiln/packet.h>

struct order {
	__u64 at, bytes;
	__u64 skew; /* of the memory's address, 0 to 15 */
	__u64 answer; /* before: a word for kiln_packet_begins */
};

static __always_inline __u64 number_and_digits(KILN_PACKET_CONTEXT *ctx, __u64 at)
{
	__u32 digits = 0;
	__s64 number = kiln_packet_number(ctx, at, &digits);

	return number < 0 ? number : number * 32 + digits;
}

kiln_heap(1 << 20);
static KILN_IN_HEAP __u8 kept[4096] __attribute__((aligned(8))) = { 1 };

#define PROGRAM(name, call)                                                                        \
	SEC(HOOK)                                                                                  \
	int name(KILN_PACKET_CONTEXT *ctx)                                                         \
	{                                                                                          \
		void *end = (void *)(long)ctx->data_end;                                           \
		void *memory __attribute__((unused));                                              \
		struct order *order = (void *)(long)ctx->data;                                     \
		__u64 at, answer = 0;                                                              \
		__u64 bytes __attribute__((unused)), word __attribute__((unused));                 \
                                                                                                   \
		if ((void *)(order + 1) > end)                                                     \
			return 0;                                                                  \
		at = order->at;                                                                    \
		bytes = order->bytes;                                                              \
		word = order->answer;                                                              \
		memory = (void *)(unsigned long)&kept + 64 + (order->skew & 15);                   \
		_Pragma("unroll") for (int site = 0; site < SITES; site++)                         \
			answer += (__u64)(call);                                                   \
		order->answer = answer;                                                            \
		return 1;                                                                          \
	}

PROGRAM(nothing, (unsigned long)memory + at + bytes)
PROGRAM(take, kiln_packet_take(ctx, at, memory, bytes))
PROGRAM(put, kiln_packet_put(ctx, at, memory, bytes))
PROGRAM(equals, kiln_packet_equals(ctx, at, memory, bytes))
PROGRAM(token, kiln_packet_token(ctx, at, bytes))
PROGRAM(number, number_and_digits(ctx, at))
PROGRAM(begins, kiln_packet_begins(ctx, at, word, bytes))
PROGRAM(hash, kiln_packet_hash(ctx, at, bytes, 7))

char LICENSE[] SEC("license") = "GPL";
