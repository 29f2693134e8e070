/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CRC-32 over 32 bytes, bit by bit, without branches. */
#include "bench.h"

SEC("xdp") int crc32_bitwise(struct xdp_md *context)
{
	PACKET(context, data);
	u32 crc = ~0u;

	for (int i = 0; i < 32; i++) {
		crc ^= data[i];
#pragma unroll
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1) * 0xedb88320;
	}
	return ~crc;
}
