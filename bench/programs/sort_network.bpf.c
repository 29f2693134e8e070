/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sorts 8 numbers by a network of 19 comparisons. */
#include "bench.h"

#define ORDER(a, b)                                                                                                   \
	do {                                                                                                            \
		if (a > b) {                                                                                            \
			u32 kept = a;                                                                                   \
			a = b;                                                                                          \
			b = kept;                                                                                       \
		}                                                                                                       \
	} while (0)

SEC("xdp") int sort_network(struct xdp_md *context)
{
	PACKET(context, data);
	u32 *from = (u32 *)(data + 16);
	u32 a = from[0], b = from[1], c = from[2], d = from[3], e = from[4], f = from[5], g = from[6], h = from[7];

	ORDER(a, c); ORDER(b, d); ORDER(e, g); ORDER(f, h);
	ORDER(a, e); ORDER(b, f); ORDER(c, g); ORDER(d, h);
	ORDER(a, b); ORDER(c, d); ORDER(e, f); ORDER(g, h);
	ORDER(c, e); ORDER(d, f);
	ORDER(b, e); ORDER(d, g);
	ORDER(b, c); ORDER(d, e); ORDER(f, g);
	return a + 3 * b + 5 * c + 7 * d + 11 * e + 13 * f + 17 * g + 19 * h;
}
