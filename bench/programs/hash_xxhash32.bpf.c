/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* xxHash32 of 96 bytes. */
#include "bench.h"

SEC("xdp") int hash_xxhash32(struct xdp_md *context)
{
	PACKET(context, data);
	u32 a = 0x24234428, b = 0x85ebca77, c = 0, d = 0x61c8864f;

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 96; i += 16) {
			a = rotl32(a + *(u32 *)(data + i) * 0x85ebca77u, 13) * 0x9e3779b1u;
			b = rotl32(b + *(u32 *)(data + i + 4) * 0x85ebca77u, 13) * 0x9e3779b1u;
			c = rotl32(c + *(u32 *)(data + i + 8) * 0x85ebca77u, 13) * 0x9e3779b1u;
			d = rotl32(d + *(u32 *)(data + i + 12) * 0x85ebca77u, 13) * 0x9e3779b1u;
		}
	}
	u32 hash = rotl32(a, 1) + rotl32(b, 7) + rotl32(c, 12) + rotl32(d, 18) + 96;
	hash = (hash ^ hash >> 15) * 0x85ebca77u;
	hash = (hash ^ hash >> 13) * 0xc2b2ae3du;
	return hash ^ hash >> 16;
}
