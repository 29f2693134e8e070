/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A byte at a time, by shifts and additions. */
#include "bench.h"

SEC("xdp") int hash_one_at_a_time(struct xdp_md *context)
{
	PACKET(context, data);
	u32 hash = 0;

	for (int i = 0; i < 96; i++) {
		hash += data[i];
		hash += hash << 10;
		hash ^= hash >> 6;
	}
	hash += hash << 3;
	hash ^= hash >> 11;
	return hash + (hash << 15);
}
