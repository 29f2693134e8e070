/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* xoshiro256**: 32 steps from a state in the packet. */
#include "bench.h"

SEC("xdp") int random_xoshiro(struct xdp_md *context)
{
	PACKET(context, data);
	u64 a = *(u64 *)data | 1, b = *(u64 *)(data + 8), c = *(u64 *)(data + 16), d = *(u64 *)(data + 24), sum = 0;

	for (int i = 0; i < 32; i++) {
		u64 kept = b << 17;

		sum += rotl64(b * 5, 7) * 9;
		c ^= a;
		d ^= b;
		b ^= c;
		a ^= d;
		c ^= kept;
		d = rotl64(d, 45);
	}
	return sum;
}
