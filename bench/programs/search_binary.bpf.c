/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Binary searches in a table in read-only data. */
#include "bench.h"

static const u32 bounds[64] = {
	3, 9, 14, 22, 31, 37, 45, 52, 60, 71, 79, 84, 93, 101, 110, 118, 127, 133, 140, 149, 155, 163, 170, 178,
	186, 191, 199, 207, 214, 222, 229, 238, 244, 251, 260, 268, 275, 283, 290, 299, 306, 312, 320, 329, 335, 343,
	350, 358, 366, 373, 381, 389, 396, 404, 411, 419, 427, 434, 442, 450, 457, 465, 473, 480,
};

SEC("xdp") int search_binary(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

	for (int i = 0; i < 32; i++) {
		u32 key = data[i] * 2, at = 0;

#pragma unroll
		for (u32 step = 32; step > 0; step /= 2)
			if (bounds[(at + step) & 63] <= key)
				at += step;
		result = result * 7 + at;
	}
	return result;
}
