/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Decimal numbers in text, added. */
#include "bench.h"

SEC("xdp") int parse_decimal(struct xdp_md *context)
{
	PACKET(context, data);
	u32 sum = 0, value = 0;

	for (int i = 0; i < 96; i++) {
		u32 digit = data[i] - 48;

		if (digit <= 9) {
			value = value * 10 + digit;
		} else {
			sum += value;
			value = 0;
		}
	}
	return sum + value;
}
