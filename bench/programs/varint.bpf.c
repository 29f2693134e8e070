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
		shift += 7;
		if (byte < 0x80 || shift > 56) {
			sum += (s64)value >> (shift & 31);
			value = 0;
			shift = 0;
		}
	}
	return sum;
}
