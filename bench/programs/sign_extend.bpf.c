/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Signed bytes and half words from packed samples. */
#include "bench.h"

SEC("xdp") int sign_extend(struct xdp_md *context)
{
	PACKET(context, data);
	s64 sum = 0;

	for (int i = 0; i < 96; i += 2) {
		s32 sample = (s32)(*(u16 *)(data + i) << 16) >> 16;
		s32 low = (s32)(data[i] << 24) >> 24;

		sum += (s64)sample * low;
		sum ^= (s64)sample;
	}
	return sum;
}
