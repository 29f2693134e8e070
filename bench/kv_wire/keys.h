/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Keys by Zipf's law, or uniform where `zipf` is 0. */
#ifndef KEYS_H
#define KEYS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* How often each rank and all before it are drawn; the caller frees it. */
static inline double *popularity(uint32_t keys, double zipf)
{
	double *until = malloc(keys * sizeof(*until)), sum = 0;

	for (uint32_t rank = 0; rank < keys; rank++)
		until[rank] = sum += zipf > 0 ? pow(rank + 1, -zipf) : 1;
	return until;
}

/* The key at a part of all draws, 0 to 1. Ranks are scattered over the keys, so that all sizes of values are as popular. */
static inline uint32_t key_at(const double *until, uint32_t keys, double part)
{
	double wanted = part * until[keys - 1];
	uint32_t low = 0, high = keys - 1;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (until[middle] < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return (uint32_t)((low * 2654435761ull) % keys);
}

#endif
