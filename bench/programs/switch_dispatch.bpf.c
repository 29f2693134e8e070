/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A chain of comparisons of one value with constants, for each byte. */
#include "bench.h"

SEC("xdp") int switch_dispatch(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0;

	for (int i = 0; i < 96; i++)
		switch (data[i] & 15) {
		case 0: sum += 3; break;
		case 1: sum ^= 5; break;
		case 2: sum *= 3; break;
		case 3: sum -= 7; break;
		case 4: sum ^= sum >> 3; break;
		case 6: sum += i; break;
		case 9: sum <<= 1; break;
		case 12: sum ^= 0xff; break;
		case 13: sum += data[i + 1]; break;
		default: sum++;
		}
	return sum;
}
