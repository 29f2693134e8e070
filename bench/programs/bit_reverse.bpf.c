/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reverses the bits of 16 words. */
#include "bench.h"

SEC("xdp") int bit_reverse(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

	for (int i = 0; i < 64; i += 4) {
		u32 x = *(u32 *)(data + i);

		x = x >> 1 & 0x55555555 | (x & 0x55555555) << 1;
		x = x >> 2 & 0x33333333 | (x & 0x33333333) << 2;
		x = x >> 4 & 0x0f0f0f0f | (x & 0x0f0f0f0f) << 4;
		x = __builtin_bswap32(x);
		result = rotl32(result, 5) ^ x;
	}
	return result;
}
