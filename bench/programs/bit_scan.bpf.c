/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Positions of set bits, lowest first. */
#include "bench.h"

SEC("xdp") int bit_scan(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int i = 0; i < 6; i++) {
		u32 bits = *(u32 *)(data + 4 * i), position = 0;

		for (int step = 0; step < 32; step++) {
			if (bits & 1)
				sum += position;
			bits >>= 1;
			position++;
			if (!bits)
				break;
		}
	}
	return sum;
}
