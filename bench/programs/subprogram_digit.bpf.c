/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A classification of bytes that is called, with branches. */
#include "bench.h"

CALLED u32 classify(u32 byte)
{
	if (byte - 48 < 10)
		return 1;
	if ((byte | 32) - 97 < 26)
		return 2;
	return byte < 32 ? 3 : 4;
}

SEC("xdp") int subprogram_digit(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int i = 0; i < 48; i++)
		sum = sum * 3 + classify(data[i]);
	return sum;
}
