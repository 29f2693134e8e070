/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A dependent chain of 32-bit arithmetic. */
#include "bench.h"

SEC("xdp") int alu32_chain(struct xdp_md *context)
{
	PACKET(context, data);
	u32 x = *(u32 *)data, y = *(u32 *)(data + 4), z = *(u32 *)(data + 8);

#pragma unroll
	for (int i = 0; i < 48; i++) {
		x += y;
		y ^= x >> 3;
		z = (z - y) * 3;
		x |= z & 0xff;
		y = ~y + i;
	}
	return x ^ y ^ z;
}
