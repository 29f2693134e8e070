/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What every bench program includes: types, helpers, and a packet to work on.
 *
 * Each program is one XDP program named after its file. It takes its data from the packet (at least 128 bytes), so
 * that nothing is known at compile time, and returns a value that depends on all it computed.
 */
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

/* Bytes of packet that every program may read. */
#define PACKET_BYTES 128
/* Called, not inlined. */
#define CALLED static __attribute__((noinline))
/* The compiler must take this value as unknown. */
#define OPAQUE(value) asm volatile("" : "+r"(value))

#define PACKET(context, data)                                                                                         \
	u8 *data = (u8 *)(long)(context)->data;                                                                         \
	if (data + PACKET_BYTES > (u8 *)(long)(context)->data_end)                                                      \
		return 0

static inline u32 rotl32(u32 x, u32 n) { return x << n | x >> (32 - n); }
static inline u64 rotl64(u64 x, u32 n) { return x << n | x >> (64 - n); }

char _license[] SEC("license") = "Dual MIT/GPL";
