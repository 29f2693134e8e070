/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Walks VLAN tags and IPv6 extension headers to the transport header. */
#include "bench.h"

SEC("xdp") int parse_chain(struct xdp_md *context)
{
	u8 *data = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	u8 *at = data + 12;

	for (int i = 0; i < 4; i++) {
		if (at + 4 > end)
			return 1;
		u16 type = *(u16 *)at;
		if (type != __builtin_bswap16(0x8100) && type != __builtin_bswap16(0x88a8))
			break;
		at += 4;
	}
	if (at + 42 > end)
		return 2;
	u32 next = at[8];
	at += 42;
	for (int i = 0; i < 8; i++) {
		if (at + 8 > end)
			return 3;
		if (next != 0 && next != 43 && next != 60)
			break;
		next = at[0];
		at += 8 + (at[1] & 3) * 8;
	}
	if (at + 4 > end)
		return 4;
	return next << 16 | *(u16 *)(at + 2);
}
