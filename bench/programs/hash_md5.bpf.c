/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The first round of MD5 over 64 bytes, twice. */
#include "bench.h"

SEC("xdp") int hash_md5(struct xdp_md *context)
{
	PACKET(context, data);
	u32 a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;

#define STEP(a, b, c, d, k, n) a += (d ^ (b & (c ^ d))) + *(u32 *)(block + 4 * (k)) + 0xd76aa478 + (k); a = rotl32(a, n) + b
	for (int half = 0; half < 2; half++) {
		u8 *block = data + 64 * half;

		for (int i = 0; i < 16; i += 4) {
			STEP(a, b, c, d, i, 7);
			STEP(d, a, b, c, i + 1, 12);
			STEP(c, d, a, b, i + 2, 17);
			STEP(b, c, d, a, i + 3, 22);
		}
	}
	return a ^ b ^ c ^ d;
}
