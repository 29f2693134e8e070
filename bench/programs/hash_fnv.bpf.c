/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* FNV-1a over 128 bytes, one at a time. */
#include "bench.h"

SEC("xdp") int hash_fnv(struct xdp_md *context)
{
	PACKET(context, data);
	u64 hash = 0xcbf29ce484222325ull;

	for (int i = 0; i < PACKET_BYTES; i++)
		hash = (hash ^ data[i]) * 0x100000001b3ull;
	return hash ^ hash >> 32;
}
