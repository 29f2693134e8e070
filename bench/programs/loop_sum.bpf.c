/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A short loop body, run often. */
#include "bench.h"

SEC("xdp") int loop_sum(struct xdp_md *context)
{
	PACKET(context, data);
	u64 sum = *(u64 *)data, step = *(u64 *)(data + 8);

	for (u32 i = 0; i < 1000; i++) {
		sum += step ^ i;
		OPAQUE(sum);
	}
	return sum;
}
