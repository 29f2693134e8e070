/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Decisions that depend on packet bytes. */
#include "bench.h"

SEC("xdp") int branch_tree(struct xdp_md *context)
{
	PACKET(context, data);
	u32 score = 0;

	for (int i = 0; i < 96; i++) {
		u32 byte = data[i];

		if (byte < 32)
			score += byte < 8 ? 1 : byte < 16 ? 3 : 5;
		else if (byte & 1)
			score ^= byte > 128 ? 0x10 : 0x21;
		else if (byte == 64)
			score <<= 1;
		else
			score += byte > 200 ? 7 : 2;
	}
	return score;
}
