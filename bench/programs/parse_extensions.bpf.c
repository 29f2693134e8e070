/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* IPv6 extension headers, followed through the packet. */
#include "bench.h"

SEC("xdp") int parse_extensions(struct xdp_md *context)
{
	PACKET(context, data);
	u64 words[16];
	u8 *bytes = (u8 *)words;
	u32 result = 0;

	for (int i = 0; i < 16; i++)
		words[i] = *(u64 *)(data + 8 * i);
	for (int start = 0; start < 12; start++) {
		u32 next = data[start] & 63, at = start;

		for (int i = 0; i < 8; i++) {
			if (next != 0 && next != 43 && next != 44 && next != 60)
				next = bytes[at + 1 & 127] & 63;
			else
				result++;
			if (next == 59)
				break;
			next = bytes[at & 127] & 63;
			at += 8 + (bytes[at + 1 & 127] & 7);
		}
		result += at;
	}
	return result;
}
