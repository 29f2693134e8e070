/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Fields of 2, 4 and 8 bytes from network order, summed. */
#include "bench.h"

SEC("xdp") int byte_order(struct xdp_md *context)
{
	PACKET(context, data);
	u64 sum = 0;

	for (int i = 0; i < 112; i += 16) {
		sum += __builtin_bswap16(*(u16 *)(data + i));
		sum ^= __builtin_bswap32(*(u32 *)(data + i + 4));
		sum += __builtin_bswap64(*(u64 *)(data + i + 8));
	}
	return sum ^ sum >> 32;
}
