/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Speck 64/128: 27 rounds on two blocks. */
#include "bench.h"

SEC("xdp") int cipher_speck(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

	for (int block = 0; block < 2; block++) {
		u32 x = *(u32 *)(data + 8 * block), y = *(u32 *)(data + 8 * block + 4);

		for (int i = 0; i < 27; i++) {
			x = (rotl32(x, 24) + y) ^ *(u32 *)(data + 16 + (i & 15) * 4);
			y = rotl32(y, 3) ^ x;
		}
		result ^= x ^ y;
	}
	return result;
}
