/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A mixing function called for each word. */
#include "bench.h"

CALLED u32 mix(u32 hash, u32 word)
{
	word = rotl32(word * 0xcc9e2d51u, 15) * 0x1b873593u;
	return rotl32(hash ^ word, 13) * 5 + 0xe6546b64u;
}

SEC("xdp") int subprogram_hash(struct xdp_md *context)
{
	PACKET(context, data);
	u32 hash = 7;

	for (int i = 0; i < 32; i++)
		hash = mix(hash, *(u32 *)(data + 4 * (i & 15)));
	return hash;
}
