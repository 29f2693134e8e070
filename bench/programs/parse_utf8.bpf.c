/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts the characters of UTF-8 and notes wrong bytes. */
#include "bench.h"

SEC("xdp") int parse_utf8(struct xdp_md *context)
{
	PACKET(context, data);
	u32 characters = 0, wrong = 0, expected = 0;

	for (int i = 0; i < PACKET_BYTES; i++) {
		u32 byte = data[i];

		if (expected) {
			if ((byte & 0xc0) == 0x80)
				expected--;
			else
				wrong++, expected = 0;
			continue;
		}
		characters++;
		if (byte >= 0xf0)
			expected = 3;
		else if (byte >= 0xe0)
			expected = 2;
		else if (byte >= 0xc0)
			expected = 1;
		else if (byte >= 0x80)
			wrong++;
	}
	return characters << 8 | wrong;
}
