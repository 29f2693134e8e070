/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Copies 96 bytes word by word to another place of the packet, four times. */
#include "bench.h"

SEC("xdp") int copy_words(struct xdp_md *context)
{
	PACKET(context, data);
	u64 sum = 0;

	for (int round = 0; round < 40; round++) {
		OPAQUE(data);
		for (int i = 0; i < 64; i += 8)
			*(u64 *)(data + 64 + i) = *(u64 *)(data + i) + round;
		sum += *(u64 *)(data + 64 + 8 * (round & 7));
	}
	return sum;
}
