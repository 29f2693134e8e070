/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts bits in 16 words, the parallel way. */
#include "bench.h"

SEC("xdp") int bit_count(struct xdp_md *context)
{
	PACKET(context, data);
	u64 total = 0;

	for (int i = 0; i < 128; i += 8) {
		u64 x = *(u64 *)(data + i);

		x -= x >> 1 & 0x5555555555555555ull;
		x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
		x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
		total += x * 0x0101010101010101ull >> 56;
	}
	return total;
}
