/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A hash table on the stack with open addressing. */
#include "bench.h"

SEC("xdp") int table_probe(struct xdp_md *context)
{
	PACKET(context, data);
	u32 keys[32] = {}, found = 0;

	for (int i = 0; i < 24; i++) {
		u32 key = *(u16 *)(data + 2 * i) | 1, at = key * 0x9e3779b1u >> 27;

		for (int probe = 0; probe < 4; probe++) {
			u32 slot = at + probe & 31;

			if (keys[slot] == key) {
				found++;
				break;
			}
			if (!keys[slot]) {
				keys[slot] = key;
				break;
			}
		}
	}
	return found << 8 | keys[7];
}
