/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A binary heap on the stack: values sink. */
#include "bench.h"

SEC("xdp") int heap_sift(struct xdp_md *context)
{
	PACKET(context, data);
	u32 heap[32], result = 0;

	for (int i = 0; i < 32; i++)
		heap[i] = data[i];
	for (int round = 0; round < 8; round++) {
		u32 at = 0, value = data[32 + round];

		result = result * 3 + heap[0];
		for (int level = 0; level < 4; level++) {
			u32 child = 2 * at + 1 & 31;

			if (child < 30 && heap[child + 1 & 31] < heap[child])
				child = child + 1 & 31;
			if (heap[child] >= value)
				break;
			heap[at & 31] = heap[child];
			at = child;
		}
		heap[at & 31] = value;
	}
	return result;
}
