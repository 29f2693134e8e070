// SPDX-License-Identifier: GPL-2.0
/* Operations for Linux's JIT, in a program and in its subprogram. */
typedef unsigned int u32;
typedef unsigned long long u64;

struct xdp_md {
	u32 data, data_end;
};

#include <kiln/ops.h>

static __attribute__((noinline)) u64 mix(u64 value, u64 by)
{
	value = (value << 13 | value >> 51) + by;
	return value << 29 | value >> 35;
}

__attribute__((section("xdp"), used)) int example(struct xdp_md *ctx)
{
	u64 *at = (u64 *)(long)ctx->data;
	u64 *end = (u64 *)(long)ctx->data_end;

	if (at + 8 > end)
		return 1;
	at[4] = mix(at[0], __builtin_bswap64(at[1]));
	at[5] = KILN_SELECT(at[2], <, at[3], at[2], at[3]);
	return 2;
}

char _license[] __attribute__((section("license"), used)) = "GPL";
