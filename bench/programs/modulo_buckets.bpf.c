/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spreads keys over a prime number of buckets. */
#include "bench.h"

SEC("xdp") int modulo_buckets(struct xdp_md *context)
{
	PACKET(context, data);
	u32 seen = 0;

	for (int i = 0; i < 96; i += 4) {
		u32 key = *(u32 *)(data + i) * 2654435761u;

		seen ^= 1u << (key % 1021 & 31);
		seen += key % 97;
	}
	return seen;
}
