/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Medians of nine by a network of exchanges. */
#include "bench.h"

SEC("xdp") int sort_median(struct xdp_md *context)
{
	PACKET(context, data);
	u32 result = 0;

#define ORDER(a, b) { u32 least = a < b ? a : b; b = a < b ? b : a; a = least; }
	for (int i = 0; i < 6; i++) {
		u32 p[9];

		for (int j = 0; j < 9; j++)
			p[j] = data[i * 12 + j];
		ORDER(p[1], p[2]) ORDER(p[4], p[5]) ORDER(p[7], p[8]) ORDER(p[0], p[1]) ORDER(p[3], p[4])
		ORDER(p[6], p[7]) ORDER(p[1], p[2]) ORDER(p[4], p[5]) ORDER(p[7], p[8]) ORDER(p[0], p[3])
		ORDER(p[5], p[8]) ORDER(p[4], p[7]) ORDER(p[3], p[6]) ORDER(p[1], p[4]) ORDER(p[2], p[5])
		ORDER(p[4], p[7]) ORDER(p[4], p[2]) ORDER(p[6], p[4]) ORDER(p[4], p[2])
		result = result * 5 + p[4];
	}
	return result;
}
