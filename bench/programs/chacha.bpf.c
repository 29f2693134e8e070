/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Four double rounds of ChaCha on the stack. */
#include "bench.h"

#define QUARTER(a, b, c, d)                                                                                           \
	s[a] += s[b]; s[d] = rotl32(s[d] ^ s[a], 16);                                                                   \
	s[c] += s[d]; s[b] = rotl32(s[b] ^ s[c], 12);                                                                   \
	s[a] += s[b]; s[d] = rotl32(s[d] ^ s[a], 8);                                                                    \
	s[c] += s[d]; s[b] = rotl32(s[b] ^ s[c], 7)

SEC("xdp") int chacha(struct xdp_md *context)
{
	PACKET(context, data);
	u32 s[16];
	u32 result = 0;

	for (int i = 0; i < 16; i++)
		s[i] = *(u32 *)(data + 4 * i);
	for (int round = 0; round < 4; round++) {
		QUARTER(0, 4, 8, 12);
		QUARTER(1, 5, 9, 13);
		QUARTER(2, 6, 10, 14);
		QUARTER(3, 7, 11, 15);
		QUARTER(0, 5, 10, 15);
		QUARTER(1, 6, 11, 12);
		QUARTER(2, 7, 8, 13);
		QUARTER(3, 4, 9, 14);
	}
	for (int i = 0; i < 16; i++)
		result ^= s[i];
	return result;
}
