/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Fills, permutes and sums an array on the stack. */
#include "bench.h"

SEC("xdp") int stack_array(struct xdp_md *context)
{
	PACKET(context, data);
	u32 values[64];
	u32 sum = 0;

	for (int i = 0; i < 64; i++)
		values[i] = data[i] * 2654435761u;
	for (int i = 0; i < 64; i++) {
		u32 other = values[i] >> 26 & 63, kept = values[i];

		values[i] = values[other];
		values[other] = kept;
	}
	for (int i = 0; i < 64; i++)
		sum = sum * 31 + values[i];
	return sum;
}
