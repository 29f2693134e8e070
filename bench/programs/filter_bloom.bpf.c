/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A Bloom filter of 256 bits on the stack: four words, two bits a key. */
#include "bench.h"

SEC("xdp") int filter_bloom(struct xdp_md *context)
{
	PACKET(context, data);
	u64 bits[4] = {};
	u32 hits = 0;

	for (int i = 0; i < 32; i++) {
		u32 hash = *(u16 *)(data + 2 * i) * 0x9e3779b1u;
		u64 first = 1ull << (hash >> 26), second = 1ull << (hash >> 20 & 63);
		u64 *word = &bits[hash >> 8 & 3];

		if ((*word & first) && (*word & second))
			hits++;
		*word |= first | second;
	}
	return hits << 16 | (u32)(bits[0] ^ bits[3]);
}
