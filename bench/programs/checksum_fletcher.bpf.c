/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Fletcher-32 over 16-bit words, folded at each step. */
#include "bench.h"

SEC("xdp") int checksum_fletcher(struct xdp_md *context)
{
	PACKET(context, data);
	u32 low = 0xffff, high = 0xffff;

	for (int i = 0; i < 120; i += 2) {
		low += *(u16 *)(data + i);
		low = (low & 0xffff) + (low >> 16);
		high += low;
		high = (high & 0xffff) + (high >> 16);
	}
	return high << 16 | low;
}
