/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Words put together byte by byte, then mixed, as portable code does. */
#include "bench.h"

SEC("xdp") int hash_bytewise_words(struct xdp_md *context)
{
	PACKET(context, data);
	u32 hash = 17;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 96; i += 4) {
			u32 word = data[i] | data[i + 1] << 8 | data[i + 2] << 16 | (u32)data[i + 3] << 24;

			hash = rotl32(hash ^ word, 11) * 0x9e3779b1u;
		}
	}
	return hash;
}
