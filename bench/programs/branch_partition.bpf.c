/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A partition by a pivot, as in quicksort: branches that nothing predicts. */
#include "bench.h"

SEC("xdp") int branch_partition(struct xdp_md *context)
{
	PACKET(context, data);
	u32 below = 0, above = 0, equal = 0, pivot = data[64];

	for (int i = 0; i < PACKET_BYTES; i++) {
		if (data[i] < pivot)
			below += data[i];
		else if (data[i] > pivot)
			above ^= data[i];
		else
			equal++;
	}
	return below << 16 | above << 8 | equal;
}
