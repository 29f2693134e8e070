/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Lookups in a trie of four children to a node, in read-only data. */
#include "bench.h"

static const u32 trie[16][4] = {
	{ 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 }, { 13, 14, 15, 1 }, { 2, 16, 3, 17 }, { 4, 5, 18, 6 },
	{ 7, 8, 9, 19 }, { 20, 10, 11, 12 }, { 13, 21, 14, 15 }, { 1, 3, 22, 5 }, { 7, 9, 11, 23 }, { 24, 13, 15, 2 },
	{ 4, 25, 6, 8 }, { 10, 12, 26, 14 }, { 1, 4, 7, 27 }, { 28, 10, 13, 3 },
};

SEC("xdp") int trie_radix(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

	for (int i = 0; i < 16; i++) {
		u32 key = *(u32 *)(data + 4 * i), at = 0;

		for (int level = 0; level < 6; level++) {
			at = trie[at & 15][key & 3];
			key >>= 2;
			if (at >= 16)
				break;
		}
		result = result * 5 + at;
	}
	return result;
}
