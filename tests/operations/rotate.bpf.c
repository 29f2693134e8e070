// Rotations as C programs write them: constants and registers, both widths, in place and into another register, and
// several of one value. The results go into the packet, so that engines can be compared.
typedef unsigned int u32;
typedef unsigned long long u64;

struct xdp_md {
	u32 data, data_end;
};

#include <kiln/ops.h>

#define ROTATE32(x, n) kiln_rotate_left_32(x, n)
#define ROTATE64(x, n) kiln_rotate_left_64(x, n)

__attribute__((section("xdp"), used)) int rotate(struct xdp_md *ctx)
{
	u64 *at = (u64 *)(long)ctx->data;
	u64 *end = (u64 *)(long)ctx->data_end;

	if (at + 8 > end)
		return 1;
	u64 a = at[0], b = at[1], c = at[2], d = at[3];
	u32 x = at[4], y = at[5];
	// SipHash's round.
	a += b;
	c += d;
	b = ROTATE64(b, 13) ^ a;
	d = ROTATE64(d, 16) ^ c;
	a = ROTATE64(a, 32);
	c += b;
	a += d;
	b = ROTATE64(b, 17) ^ c;
	d = ROTATE64(d, 21) ^ a;
	c = ROTATE64(c, 32);
	// 32 bits, sums, and by what is in a register.
	x = ROTATE32(x, 7) + ROTATE32(x, 18);
	y = ROTATE32(y, 1) ^ x;
	u32 n = y & 31;
	u32 z = x << n | x >> (-n & 31);
	u64 m = a & 63;
	u64 w = b << m | b >> (-m & 63);
	at[0] = a;
	at[1] = b;
	at[2] = c;
	at[3] = d;
	at[4] = x;
	at[5] = y;
	at[6] = z;
	at[7] = w;
	return 2;
}
