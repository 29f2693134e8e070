/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Decodes variable-length integers: shifts by amounts not known before. */
#include "bench.h"

SEC("xdp") int varint(struct xdp_md *context)
{
	PACKET(context, data);
	u64 value = 0, sum = 0;
	u32 shift = 0;

	for (int i = 0; i < 96; i++) {
		u64 byte = data[i];

		value |= (byte & 0x7f) << (shift & 63);
		sum += value >> (byte & 31);
		shift = byte < 0x80 ? 0 : shift + 7;
		value &= -(u64)(byte >> 7);
	}
	return sum;
}
