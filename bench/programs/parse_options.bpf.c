/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Walks TCP options, kind by kind. */
#include "bench.h"

SEC("xdp") int parse_options(struct xdp_md *context)
{
	PACKET(context, data);
	u64 words[16];
	u8 *bytes = (u8 *)words;
	u32 found = 0, at = 0;

	for (int i = 0; i < 16; i++)
		words[i] = *(u64 *)(data + 8 * i);
	for (int i = 0; i < 24; i++) {
		at &= 127;
		u32 kind = bytes[at & 127] & 15, length = bytes[at + 1 & 127] & 7;

		switch (kind) {
		case 0:
		case 1:
			at += 1;
			break;
		case 2:
			found += length;
			at += 4;
			break;
		case 3:
			found ^= 3;
			at += 3;
			break;
		case 5:
			found += 8 * length;
			at += 2;
			break;
		case 8:
			found ^= 0x100;
			at += 10;
			break;
		default:
			at += 2 + length;
		}
	}
	return found << 8 | at;
}
