/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bit fields of headers in network order: versions, lengths, fragments, flags. */
#include "bench.h"

SEC("xdp") int byte_order_fields(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int i = 0; i < 96; i += 4) {
		u32 word = __builtin_bswap32(*(u32 *)(data + i));

		sum += word >> 28;
		sum += word >> 24 & 15;
		sum ^= word >> 13 & 0x7ff;
		sum += (word & 0x1fff) * 8;
	}
	return sum;
}
