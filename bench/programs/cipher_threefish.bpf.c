/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Eight rounds of Threefish's mixing on four 64-bit words. */
#include "bench.h"

SEC("xdp") int cipher_threefish(struct xdp_md *context)
{
	PACKET(context, data);
	u64 a = *(u64 *)data, b = *(u64 *)(data + 8), c = *(u64 *)(data + 16), d = *(u64 *)(data + 24);

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 8; i++) {
			a += b; b = rotl64(b, 14) ^ a;
			c += d; d = rotl64(d, 16) ^ c;
			a += d; d = rotl64(d, 52) ^ a;
			c += b; b = rotl64(b, 57) ^ c;
			a += *(u64 *)(data + 32 + 8 * i);
		}
	}
	return a ^ b ^ c ^ d;
}
