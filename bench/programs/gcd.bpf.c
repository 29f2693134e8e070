/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Greatest common divisors by subtraction and shifts. */
#include "bench.h"

SEC("xdp") int gcd(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

	for (int pair = 0; pair < 4; pair++) {
		u32 a = *(u16 *)(data + 4 * pair) | 1, b = *(u16 *)(data + 4 * pair + 2) | 1;

		for (int i = 0; i < 40; i++) {
			if (a == b)
				break;
			if (a < b) {
				u32 kept = a;
				a = b;
				b = kept;
			}
			a -= b;
			if (!(a & 1))
				a >>= 1;
		}
		result += a;
	}
	return result;
}
