/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Fills buffers on the stack and copies them. */
#include "bench.h"

SEC("xdp") int copy_stack(struct xdp_md *context)
{
	PACKET(context, data);
	u64 first[16], second[16], sum = 0;

	for (int round = 0; round < 12; round++) {
		for (int i = 0; i < 16; i++)
			first[i] = *(u64 *)(data + 8 * i) ^ round;
		for (int i = 0; i < 16; i++)
			second[i] = first[15 - i];
		OPAQUE(sum);
		sum += second[data[round] & 15];
	}
	return sum;
}
