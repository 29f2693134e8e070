/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CRC-16 over 64 bytes, a byte at a time without a table. */
#include "bench.h"

SEC("xdp") int checksum_crc16(struct xdp_md *context)
{
	PACKET(context, data);
	u32 crc = 0xffff;

	for (int i = 0; i < 64; i++) {
		u32 x = (crc >> 8 ^ data[i]) & 0xff;

		x ^= x >> 4;
		crc = (crc << 8 ^ x << 12 ^ x << 5 ^ x) & 0xffff;
	}
	return crc;
}
