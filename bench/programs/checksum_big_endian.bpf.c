/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A checksum over 16-bit words in network order, odd and even apart. */
#include "bench.h"

SEC("xdp") int checksum_big_endian(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 120; i += 4) {
			sum += __builtin_bswap16(*(u16 *)(data + i + round));
			sum ^= (u32)__builtin_bswap16(*(u16 *)(data + i + 2)) << 3;
		}
	}
	return sum;
}
