/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* MurmurHash64A of 128 bytes. */
#include "bench.h"

SEC("xdp") int hash_murmur2(struct xdp_md *context)
{
	PACKET(context, data);
	u64 hash = 0x8445d61a4e774912ull;

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 128; i += 8) {
			u64 key = *(u64 *)(data + i) * 0xc6a4a7935bd1e995ull;

			key ^= key >> 47;
			hash = (hash ^ key * 0xc6a4a7935bd1e995ull) * 0xc6a4a7935bd1e995ull;
		}
	}
	hash = (hash ^ hash >> 47) * 0xc6a4a7935bd1e995ull;
	return hash ^ hash >> 47;
}
