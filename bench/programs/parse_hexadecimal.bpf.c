/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Hexadecimal digits to a number. */
#include "bench.h"

SEC("xdp") int parse_hexadecimal(struct xdp_md *context)
{
	PACKET(context, data);
	u64 value = 0;

	for (int i = 0; i < 96; i++) {
		u32 byte = data[i], digit;

		if (byte - 48 < 10)
			digit = byte - 48;
		else if ((byte | 32) - 97 < 6)
			digit = (byte | 32) - 87;
		else
			continue;
		value = value << 4 | digit;
	}
	return value ^ value >> 32;
}
