/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sorts 10 bytes on the stack by exchanges. */
#include "bench.h"

SEC("xdp") int sort_bubble(struct xdp_md *context)
{
	PACKET(context, data);
	u8 values[16];
	u32 result = 0;

	for (int i = 0; i < 16; i++)
		values[i] = data[i];
	for (int i = 0; i < 10; i++)
		for (int at = 0; at < 9; at++) {
			u8 left = values[at], right = values[at + 1];

			values[at] = left < right ? left : right;
			values[at + 1] = left < right ? right : left;
		}
	for (int i = 0; i < 10; i++)
		result = result * 3 + values[i];
	return result;
}
