/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Signed arithmetic with clamps. */
#include "bench.h"

SEC("xdp") int saturate(struct xdp_md *context)
{
	PACKET(context, data);
	s32 level = 0;
	s64 energy = 0;

	for (int i = 0; i < 96; i++) {
		s32 sample = (signed char)data[i];

		level += sample * 3 - (level >> 4);
		if (level > 1000)
			level = 1000;
		else if (level < -1000)
			level = -1000;
		energy += (s64)level * sample;
	}
	return energy;
}
