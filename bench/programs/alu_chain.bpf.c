/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A dependent chain of 64-bit arithmetic. */
#include "bench.h"

SEC("xdp") int alu_chain(struct xdp_md *context)
{
	PACKET(context, data);
	u64 x = *(u64 *)data, y = *(u64 *)(data + 8);

#pragma unroll
	for (int i = 0; i < 48; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		y += x;
		x -= y & 0x5555;
	}
	return x + y;
}
