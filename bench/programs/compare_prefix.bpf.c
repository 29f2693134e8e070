/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Compares prefixes byte by byte with eight patterns. */
#include "bench.h"

SEC("xdp") int compare_prefix(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

	for (int round = 0; round < 4; round++) {
		for (int pattern = 0; pattern < 8; pattern++)
			for (int start = 0; start < 4; start++) {
				int i;

				for (i = 0; i < 8; i++)
					if (data[start * 8 + i] != (data[pattern * 8 + i] & 0xfe))
						break;
				result = result * 3 + i;
			}
	}
	return result;
}
