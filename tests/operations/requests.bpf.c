// Operations that a program asks for: choices without a branch, a prefetch, a barrier.
typedef unsigned int u32;
typedef unsigned long long u64;

struct xdp_md {
	u32 data, data_end;
};

#include <kiln/ops.h>

__attribute__((section("xdp"), used)) int requests(struct xdp_md *ctx)
{
	u64 *at = (u64 *)(long)ctx->data;
	u64 *end = (u64 *)(long)ctx->data_end;

	if (at + 8 > end)
		return 1;
	kiln_prefetch(at + 4);
	u64 least = KILN_SELECT(at[0], <, at[1], at[0], at[1]);
	u64 most = KILN_SELECT(at[2], s>, at[3], at[2], at[3]);
	at[4] = kiln_speculation_barrier(least);
	at[5] = KILN_SELECT(most, ==, at[0], 7, most);
	return 2;
}
