/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sorts nibbles by counting them. */
#include "bench.h"

SEC("xdp") int sort_counting(struct xdp_md *context)
{
	PACKET(context, data);
	u8 counts[16] = {};
	u32 result = 0, at = 0;

	for (int i = 0; i < 64; i++)
		counts[data[i] & 15]++;
	for (int i = 0; i < 16; i++) {
		at += counts[i];
		result = result * 7 + at;
	}
	return result;
}
