/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A string's hash: times 33, plus a byte. */
#include "bench.h"

SEC("xdp") int hash_times_33(struct xdp_md *context)
{
	PACKET(context, data);
	u32 hash = 5381;

	for (int i = 0; i < PACKET_BYTES; i++)
		hash = hash * 33 + data[i];
	return hash;
}
