/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Words of 32 bits from network order, added and written back. */
#include "bench.h"

SEC("xdp") int byte_order_32(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 96; i += 4) {
			u32 word = __builtin_bswap32(*(u32 *)(data + i + round));

			sum += word;
			*(u32 *)(data + i + round) = __builtin_bswap32(word + 1);
		}
	}
	return sum;
}
