/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Two rounds of BLAKE2s' mixing without its permutation. */
#include "bench.h"

SEC("xdp") int hash_blake2s(struct xdp_md *context)
{
	PACKET(context, data);
	u32 v[16];

#define MIX(a, b, c, d, x, y)                                                                                         \
	a += b + x; d = rotl32(d ^ a, 16); c += d; b = rotl32(b ^ c, 20);                                                \
	a += b + y; d = rotl32(d ^ a, 24); c += d; b = rotl32(b ^ c, 25)
	for (int i = 0; i < 16; i++)
		v[i] = *(u32 *)(data + 64 + 4 * i);
	for (int round = 0; round < 2; round++) {
		u32 *m = (u32 *)(data + 32 * round);

		MIX(v[0], v[4], v[8], v[12], m[0], m[1]);
		MIX(v[1], v[5], v[9], v[13], m[2], m[3]);
		MIX(v[2], v[6], v[10], v[14], m[4], m[5]);
		MIX(v[3], v[7], v[11], v[15], m[6], m[7]);
		MIX(v[0], v[5], v[10], v[15], m[0], m[2]);
		MIX(v[1], v[6], v[11], v[12], m[4], m[6]);
		MIX(v[2], v[7], v[8], v[13], m[1], m[3]);
		MIX(v[3], v[4], v[9], v[14], m[5], m[7]);
	}
	return v[0] ^ v[5] ^ v[10] ^ v[15];
}
