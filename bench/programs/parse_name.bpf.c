/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A DNS name: labels with lengths, lower case, hashed. */
#include "bench.h"

SEC("xdp") int parse_name(struct xdp_md *context)
{
	PACKET(context, data);
	u32 hash = 0, left = data[0] & 15;

	for (int i = 1; i < 96; i++) {
		u32 byte = data[i];

		if (left == 0) {
			left = byte & 15;
			hash = hash * 31 + 46;
			continue;
		}
		if (byte >= 65 && byte <= 90)
			byte += 32;
		hash = hash * 31 + byte;
		left--;
	}
	return hash;
}
