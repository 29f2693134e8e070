/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Three nested loops: an 8 by 8 matrix product on the stack. */
#include "bench.h"

SEC("xdp") int loop_nested(struct xdp_md *context)
{
	PACKET(context, data);
	u32 product[8] = {}, trace = 0;

	for (int row = 0; row < 8; row++) {
		for (int column = 0; column < 8; column++) {
			u32 sum = 0;

			for (int k = 0; k < 8; k++)
				sum += data[row * 8 + k] * data[64 + k * 8 + column];
			product[column] += sum;
		}
	}
	for (int i = 0; i < 8; i++)
		trace ^= product[i] << i;
	return trace;
}
