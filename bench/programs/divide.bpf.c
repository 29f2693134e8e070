/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Divisions by numbers from the packet. */
#include "bench.h"

SEC("xdp") int divide(struct xdp_md *context)
{
	PACKET(context, data);
	u64 x = *(u64 *)data, sum = 0;

	for (int i = 0; i < 32; i++) {
		u64 divisor = data[i];

		sum += x / divisor + (u32)x % (u32)(divisor + 1);
		x += 0x123456789ull;
	}
	return sum;
}
