/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A flow's hash for 12 flows: addresses and ports mixed as load balancers do. */
#include "bench.h"

SEC("xdp") int hash_flow(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

	for (int i = 0; i < 12; i++) {
		u32 a = *(u32 *)(data + 8 * i), b = *(u32 *)(data + 8 * i + 4), c = 0xdeadbeef + i;

		c ^= b; c -= rotl32(b, 14);
		a ^= c; a -= rotl32(c, 11);
		b ^= a; b -= rotl32(a, 25);
		c ^= b; c -= rotl32(b, 16);
		a ^= c; a -= rotl32(c, 4);
		b ^= a; b -= rotl32(a, 14);
		c ^= b; c -= rotl32(b, 24);
		result += c;
	}
	return result;
}
