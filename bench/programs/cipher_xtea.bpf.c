/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* XTEA: 32 rounds of shifts and additions. */
#include "bench.h"

SEC("xdp") int cipher_xtea(struct xdp_md *context)
{
	PACKET(context, data);
	u32 a = *(u32 *)data, b = *(u32 *)(data + 4), sum = 0;
	u32 key[4];

	for (int i = 0; i < 4; i++)
		key[i] = *(u32 *)(data + 8 + 4 * i);
	for (int i = 0; i < 32; i++) {
		a += ((b << 4 ^ b >> 5) + b) ^ (sum + key[sum & 3]);
		sum += 0x9e3779b9;
		b += ((a << 4 ^ a >> 5) + a) ^ (sum + key[sum >> 11 & 3]);
	}
	return a ^ b;
}
