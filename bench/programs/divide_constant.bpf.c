/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Decimal digits of numbers: divisions by ten. */
#include "bench.h"

SEC("xdp") int divide_constant(struct xdp_md *context)
{
	PACKET(context, data);
	u32 digits = 0;

	for (int i = 0; i < 64; i += 8) {
		u64 x = *(u64 *)(data + i);
		u32 y = x;

#pragma unroll
		for (int digit = 0; digit < 5; digit++) {
			digits = digits * 5 + x % 10 + y % 100;
			x /= 10;
			y /= 100;
		}
	}
	return digits;
}
