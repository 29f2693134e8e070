/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A small function called in a loop. */
#include "bench.h"

CALLED u64 step(u64 x, u64 key)
{
	x ^= key;
	x *= 0x9e3779b97f4a7c15ull;
	return x ^ x >> 29;
}

SEC("xdp") int subprogram_loop(struct xdp_md *context)
{
	PACKET(context, data);
	u64 x = *(u64 *)data;

	for (int i = 0; i < 64; i++)
		x = step(x, data[i]);
	return x;
}
