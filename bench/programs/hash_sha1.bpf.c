/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One block of SHA-1: 80 rounds of rotations. */
#include "bench.h"

SEC("xdp") int hash_sha1(struct xdp_md *context)
{
	PACKET(context, data);
	u32 w[16], a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476, e = 0xc3d2e1f0;

	for (int i = 0; i < 16; i++)
		w[i] = __builtin_bswap32(*(u32 *)(data + 4 * i));
	for (int i = 0; i < 80; i++) {
		u32 f, k;

		if (i >= 16)
			w[i & 15] = rotl32(w[i + 13 & 15] ^ w[i + 8 & 15] ^ w[i + 2 & 15] ^ w[i & 15], 1);
		if (i < 20)
			f = d ^ (b & (c ^ d)), k = 0x5a827999;
		else if (i < 40)
			f = b ^ c ^ d, k = 0x6ed9eba1;
		else if (i < 60)
			f = (b & c) | (d & (b | c)), k = 0x8f1bbcdc;
		else
			f = b ^ c ^ d, k = 0xca62c1d6;
		u32 next = rotl32(a, 5) + f + e + k + w[i & 15];
		e = d;
		d = c;
		c = rotl32(b, 30);
		b = a;
		a = next;
	}
	return a ^ b ^ c ^ d ^ e;
}
