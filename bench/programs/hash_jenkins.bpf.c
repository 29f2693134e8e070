/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Jenkins lookup3 over 96 bytes. */
#include "bench.h"

#define MIX(a, b, c)                                                                                                  \
	a -= c; a ^= rotl32(c, 4); c += b;                                                                              \
	b -= a; b ^= rotl32(a, 6); a += c;                                                                              \
	c -= b; c ^= rotl32(b, 8); b += a;                                                                              \
	a -= c; a ^= rotl32(c, 16); c += b;                                                                             \
	b -= a; b ^= rotl32(a, 19); a += c;                                                                             \
	c -= b; c ^= rotl32(b, 4); b += a

SEC("xdp") int hash_jenkins(struct xdp_md *context)
{
	PACKET(context, data);
	u32 a = 0xdeadbeef, b = a, c = a;

	for (int i = 0; i < 96; i += 12) {
		a += *(u32 *)(data + i);
		b += *(u32 *)(data + i + 4);
		c += *(u32 *)(data + i + 8);
		MIX(a, b, c);
	}
	return c;
}
