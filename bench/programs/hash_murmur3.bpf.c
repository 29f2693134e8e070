/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* MurmurHash3 of 64 bytes. */
#include "bench.h"

SEC("xdp") int hash_murmur3(struct xdp_md *context)
{
	PACKET(context, data);
	u32 hash = 42;

	for (int i = 0; i < 64; i += 4) {
		u32 k = *(u32 *)(data + i) * 0xcc9e2d51;

		hash ^= rotl32(k, 15) * 0x1b873593;
		hash = rotl32(hash, 13) * 5 + 0xe6546b64;
	}
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	return hash ^ hash >> 16;
}
