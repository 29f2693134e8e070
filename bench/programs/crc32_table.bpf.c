/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CRC-32 over 128 bytes, with a table in read-only data. */
#include "bench.h"

static const u32 table[16] = {
	0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
	0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

SEC("xdp") int crc32_table(struct xdp_md *context)
{
	PACKET(context, data);
	u32 crc = ~0u;

	for (int i = 0; i < PACKET_BYTES; i++) {
		crc ^= data[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}
