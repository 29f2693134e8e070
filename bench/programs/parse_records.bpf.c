/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records of type, length and value. */
#include "bench.h"

SEC("xdp") int parse_records(struct xdp_md *context)
{
	PACKET(context, data);
	u64 words[16];
	u8 *bytes = (u8 *)words;
	u32 sum = 0, at = 0;

	for (int i = 0; i < 16; i++)
		words[i] = *(u64 *)(data + 8 * i);
	for (int i = 0; i < 48; i++) {
		u32 type = bytes[at & 127], length = bytes[at + 1 & 127] & 3;

		if (type & 0x80)
			sum += type << length;
		else if (type > 64)
			sum ^= bytes[at + 2 & 127];
		at += 2 + length;
	}
	return sum;
}
