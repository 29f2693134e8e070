/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Logarithms by steps, for histograms. */
#include "bench.h"

SEC("xdp") int bit_log(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 24; i++) {
			u32 value = *(u32 *)(data + 4 * i), log, shift;

			log = (value > 0xffff) << 4; value >>= log;
			shift = (value > 0xff) << 3; value >>= shift; log |= shift;
			shift = (value > 0xf) << 2; value >>= shift; log |= shift;
			shift = (value > 0x3) << 1; value >>= shift; log |= shift;
			sum += log | value >> 1;
		}
	}
	return sum;
}
