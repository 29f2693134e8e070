/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A mask of four bytes over a payload, as WebSocket has it. */
#include "bench.h"

SEC("xdp") int copy_masked(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int i = 4; i < 100; i++) {
		data[i] ^= data[i & 3];
		sum += data[i];
	}
	return sum;
}
