/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Longest prefix match by a walk over a binary trie in read-only data. */
#include "bench.h"

struct node {
	u16 child[2];
	u16 value;
};

static const struct node trie[24] = {
	{ { 1, 2 }, 0 }, { { 3, 4 }, 1 }, { { 5, 6 }, 2 }, { { 7, 8 }, 0 }, { { 9, 0 }, 4 }, { { 10, 11 }, 0 },
	{ { 12, 13 }, 6 }, { { 14, 0 }, 7 }, { { 15, 16 }, 0 }, { { 0, 17 }, 9 }, { { 18, 0 }, 0 }, { { 0, 19 }, 11 },
	{ { 20, 21 }, 0 }, { { 0, 22 }, 13 }, { { 23, 0 }, 14 }, { { 0, 0 }, 15 }, { { 0, 0 }, 16 }, { { 0, 0 }, 17 },
	{ { 0, 0 }, 18 }, { { 0, 0 }, 19 }, { { 0, 0 }, 20 }, { { 0, 0 }, 21 }, { { 0, 0 }, 22 }, { { 0, 0 }, 23 },
};

SEC("xdp") int trie_walk(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

	for (int i = 0; i < 24; i++) {
		u32 key = data[i], at = 0, best = 0;

		for (int bit = 7; bit >= 0; bit--) {
			at = trie[at].child[key >> bit & 1];
			if (at == 0 || at >= 24)
				break;
			if (trie[at].value)
				best = trie[at].value;
		}
		result = result * 5 + best;
	}
	return result;
}
