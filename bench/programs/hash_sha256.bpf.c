/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sixteen rounds of SHA-256, with three rotations to each sum. */
#include "bench.h"

SEC("xdp") int hash_sha256(struct xdp_md *context)
{
	PACKET(context, data);
	u32 a = 0x6a09e667, b = 0xbb67ae85, c = 0x3c6ef372, d = 0xa54ff53a;
	u32 e = 0x510e527f, f = 0x9b05688c, g = 0x1f83d9ab, h = 0x5be0cd19;

	for (int i = 0; i < 16; i++) {
		u32 w = __builtin_bswap32(*(u32 *)(data + 4 * i));
		u32 one = rotl32(e, 26) ^ rotl32(e, 21) ^ rotl32(e, 7), choice = (e & f) ^ (~e & g);
		u32 zero = rotl32(a, 30) ^ rotl32(a, 19) ^ rotl32(a, 10), most = (a & b) ^ (a & c) ^ (b & c);
		u32 first = h + one + choice + w + 0x428a2f98 * (i + 1), second = zero + most;

		h = g;
		g = f;
		f = e;
		e = d + first;
		d = c;
		c = b;
		b = a;
		a = first + second;
	}
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
}
