/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Adler-32 over 96 bytes, reduced at the end. */
#include "bench.h"

SEC("xdp") int checksum_adler(struct xdp_md *context)
{
	PACKET(context, data);
	u32 low = 1, high = 0;

	for (int i = 0; i < 96; i++) {
		low += data[i];
		high += low;
	}
	return high % 65521 << 16 | low % 65521;
}
