/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Powers modulo 2^64, and a linear congruential generator. */
#include "bench.h"

SEC("xdp") int multiply(struct xdp_md *context)
{
	PACKET(context, data);
	u64 base = *(u64 *)data | 1, power = 1, state = *(u64 *)(data + 8);

	for (int i = 0; i < 32; i++) {
		if (data[16 + i] & 1)
			power *= base;
		base *= base;
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		power += state >> 33;
	}
	return power;
}
