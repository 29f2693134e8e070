/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SipHash-2-4 of 64 bytes. */
#include "bench.h"

#define ROUND                                                                                                         \
	v0 += v1; v2 += v3; v1 = rotl64(v1, 13); v3 = rotl64(v3, 16); v1 ^= v0; v3 ^= v2; v0 = rotl64(v0, 32);          \
	v2 += v1; v0 += v3; v1 = rotl64(v1, 17); v3 = rotl64(v3, 21); v1 ^= v2; v3 ^= v0; v2 = rotl64(v2, 32)

SEC("xdp") int hash_siphash(struct xdp_md *context)
{
	PACKET(context, data);
	u64 k0 = *(u64 *)(data + 64), k1 = *(u64 *)(data + 72);
	u64 v0 = k0 ^ 0x736f6d6570736575ull, v1 = k1 ^ 0x646f72616e646f6dull;
	u64 v2 = k0 ^ 0x6c7967656e657261ull, v3 = k1 ^ 0x7465646279746573ull;

	for (int i = 0; i < 64; i += 8) {
		u64 m = *(u64 *)(data + i);

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
	return v0 ^ v1 ^ v2 ^ v3;
}
