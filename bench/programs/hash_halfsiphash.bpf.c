/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* HalfSipHash-2-4 of 64 bytes. */
#include "bench.h"

#define ROUND                                                                                                         \
	v0 += v1; v1 = rotl32(v1, 5); v1 ^= v0; v0 = rotl32(v0, 16); v2 += v3; v3 = rotl32(v3, 8); v3 ^= v2;             \
	v0 += v3; v3 = rotl32(v3, 7); v3 ^= v0; v2 += v1; v1 = rotl32(v1, 13); v1 ^= v2; v2 = rotl32(v2, 16)

SEC("xdp") int hash_halfsiphash(struct xdp_md *context)
{
	PACKET(context, data);
	u32 k0 = *(u32 *)(data + 64), k1 = *(u32 *)(data + 68);
	u32 v0 = k0, v1 = k1, v2 = k0 ^ 0x6c796765, v3 = k1 ^ 0x74656462;

	for (int i = 0; i < 64; i += 4) {
		u32 m = *(u32 *)(data + i);

		v3 ^= m;
		ROUND;
		ROUND;
		v0 ^= m;
	}
	v2 ^= 0xff;
	ROUND;
	ROUND;
	ROUND;
	ROUND;
	return v1 ^ v3;
}
