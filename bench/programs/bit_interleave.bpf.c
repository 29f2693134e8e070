/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Morton codes: the bits of two coordinates interleaved. */
#include "bench.h"

SEC("xdp") int bit_interleave(struct xdp_md *context)
{
	PACKET(context, data);
	u64 sum = 0;

	for (int i = 0; i < 24; i++) {
		u64 x = *(u16 *)(data + 4 * i), y = *(u16 *)(data + 4 * i + 2);

		x = (x | x << 8) & 0x00ff00ff; x = (x | x << 4) & 0x0f0f0f0f;
		x = (x | x << 2) & 0x33333333; x = (x | x << 1) & 0x55555555;
		y = (y | y << 8) & 0x00ff00ff; y = (y | y << 4) & 0x0f0f0f0f;
		y = (y | y << 2) & 0x33333333; y = (y | y << 1) & 0x55555555;
		sum += x | y << 1;
	}
	return sum;
}
