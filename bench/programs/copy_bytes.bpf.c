/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Copies 48 bytes one by one in reverse order. */
#include "bench.h"

SEC("xdp") int copy_bytes(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 48; i++) {
			u8 byte = data[i];

			data[127 - i] = byte;
			sum += byte;
		}
	}
	return sum;
}
