/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts byte classes on the stack. */
#include "bench.h"

SEC("xdp") int histogram(struct xdp_md *context)
{
	PACKET(context, data);
	u32 counts[16] = {};
	u32 result = 0;

	for (int i = 0; i < PACKET_BYTES; i++)
		counts[data[i] >> 4]++;
	for (int i = 0; i < 16; i++)
		result = result * 17 + counts[i];
	return result;
}
