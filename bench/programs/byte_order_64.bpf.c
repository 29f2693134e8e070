/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Words of 64 bits from network order, compared with a bound. */
#include "bench.h"

SEC("xdp") int byte_order_64(struct xdp_md *context)
{
	PACKET(context, data);
	u64 sum = 0;

	for (int round = 0; round < 12; round++)
		for (int i = 0; i < 96; i += 8) {
			u64 word = __builtin_bswap64(*(u64 *)(data + i + round));

			sum += word > 0x8000000000000000ull ? word >> 7 : word;
		}
	return sum;
}
