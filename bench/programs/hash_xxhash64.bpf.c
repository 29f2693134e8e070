/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* xxHash64 of 96 bytes. */
#include "bench.h"

#define P1 0x9e3779b185ebca87ull
#define P2 0xc2b2ae3d27d4eb4full
#define P3 0x165667b19e3779f9ull

static inline u64 lane(u64 sum, u64 value) { return rotl64(sum + value * P2, 31) * P1; }

SEC("xdp") int hash_xxhash64(struct xdp_md *context)
{
	PACKET(context, data);
	u64 a = P1 + P2, b = P2, c = 0, d = -P1;

	for (int i = 0; i < 96; i += 32) {
		a = lane(a, *(u64 *)(data + i));
		b = lane(b, *(u64 *)(data + i + 8));
		c = lane(c, *(u64 *)(data + i + 16));
		d = lane(d, *(u64 *)(data + i + 24));
	}
	u64 hash = rotl64(a, 1) + rotl64(b, 7) + rotl64(c, 12) + rotl64(d, 18) + 96;
	hash = (hash ^ hash >> 33) * P2;
	hash = (hash ^ hash >> 29) * P3;
	return hash ^ hash >> 32;
}
