/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sorts 12 bytes on the stack by insertion. */
#include "bench.h"

SEC("xdp") int sort_insertion(struct xdp_md *context)
{
	PACKET(context, data);
	u8 values[16];
	u32 result = 0;

	for (int i = 0; i < 12; i++) {
		u8 value = data[20 + i];
		int at = i;

		for (int step = 0; step < 12; step++) {
			if (at <= 0 || at > 12 || values[at - 1 & 15] <= value)
				break;
			values[at & 15] = values[at - 1 & 15];
			at--;
		}
		values[at & 15] = value;
	}
	for (int i = 0; i < 12; i++)
		result = result * 3 + values[i];
	return result;
}
