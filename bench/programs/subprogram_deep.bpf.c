/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Functions that call functions, six deep. */
#include "bench.h"

CALLED u32 level6(u32 x) { OPAQUE(x); return x * 7 + 6; }
CALLED u32 level5(u32 x) { u32 y = level6(x + 5); OPAQUE(y); return y ^ x; }
CALLED u32 level4(u32 x) { u32 y = level5(x + 4); OPAQUE(y); return y + level5(x); }
CALLED u32 level3(u32 x) { u32 y = level4(x + 3); OPAQUE(y); return y ^ x; }
CALLED u32 level2(u32 x) { u32 y = level3(x + 2); OPAQUE(y); return y + level3(x); }

SEC("xdp") int subprogram_deep(struct xdp_md *context)
{
	PACKET(context, data);
	u32 x = *(u32 *)data;

	for (int i = 0; i < 8; i++)
		x = level2(x + i);
	return x;
}
