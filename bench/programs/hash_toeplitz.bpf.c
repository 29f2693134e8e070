/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The Toeplitz hash that network cards spread flows by: 12 bytes of input, bit by bit. */
#include "bench.h"

SEC("xdp") int hash_toeplitz(struct xdp_md *context)
{
	PACKET(context, data);
	u64 key = *(u64 *)(data + 40);
	u32 hash = 0;

	for (int i = 0; i < 12; i++) {
		u32 byte = data[26 + i];

		for (int bit = 7; bit >= 0; bit--) {
			if (byte >> bit & 1)
				hash ^= key >> 32;
			key <<= 1;
		}
		key |= data[48 + i];
	}
	return hash;
}
