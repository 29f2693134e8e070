/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Three double rounds of Salsa20 on a row of four words and its neighbours. */
#include "bench.h"

SEC("xdp") int cipher_salsa(struct xdp_md *context)
{
	PACKET(context, data);
	u32 x0 = *(u32 *)data, x1 = *(u32 *)(data + 4), x2 = *(u32 *)(data + 8), x3 = *(u32 *)(data + 12);

	for (int i = 0; i < 24; i++) {
		x1 ^= rotl32(x0 + x3, 7);
		x2 ^= rotl32(x1 + x0, 9);
		x3 ^= rotl32(x2 + x1, 13);
		x0 ^= rotl32(x3 + x2, 18);
	}
	return x0 ^ x1 ^ x2 ^ x3;
}
