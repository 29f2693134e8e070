/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Structures of 8 and 16 bytes in a table, by computed indices. */
#include "bench.h"

static const struct {
	u64 weight;
	u32 next, spare;
} rows[8] = { { 3, 5 }, { 1, 4 }, { 4, 1 }, { 1, 5 }, { 5, 9 }, { 9, 2 }, { 2, 6 }, { 6, 5 } };
static const u64 words[8] = { 2, 7, 1, 8, 2, 8, 1, 8 };

SEC("xdp") int index_structures(struct xdp_md *context)
{
	PACKET(context, data);
	u64 sum = 0;
	u32 at = data[0];

	for (int i = 0; i < 64; i++) {
		at = rows[at & 7].next + data[i];
		sum += rows[at & 7].weight * data[i] + words[at >> 3 & 7];
	}
	return sum;
}
