/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counters in global variables: map values without lookups. */
#include "bench.h"

u64 packets, bytes;
u32 sizes[8];

SEC("xdp") int global_counters(struct xdp_md *context)
{
	u32 length = context->data_end - context->data;

	packets++;
	bytes += length;
	sizes[length >> 5 & 7]++;
	return packets;
}
