/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A hash by a table of 16 nibbles. */
#include "bench.h"

static const u8 table[16] = { 9, 4, 13, 2, 7, 15, 0, 11, 5, 14, 1, 8, 12, 3, 10, 6 };

SEC("xdp") int hash_pearson(struct xdp_md *context)
{
	PACKET(context, data);
	u32 high = 0, low = 0;

	for (int i = 0; i < 96; i++) {
		high = table[(high ^ data[i] >> 4) & 15];
		low = table[(low ^ data[i]) & 15];
	}
	return high << 4 | low;
}
