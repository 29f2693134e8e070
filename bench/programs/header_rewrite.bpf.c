/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Decrements a TTL and mends the checksum, as a router does. */
#include "bench.h"

SEC("xdp") int header_rewrite(struct xdp_md *context)
{
	PACKET(context, data);
	u8 *ip = data + 14;

	if (ip[0] != 0x45 || ip[8] <= 1)
		return XDP_DROP;
	u32 check = *(u16 *)(ip + 10) + 1;
	*(u16 *)(ip + 10) = check + (check >= 0xffff);
	ip[8] = 64 - (ip[8] & 1);
	*(u32 *)data = *(u32 *)(ip + 16) * 2654435761u;
	*(u16 *)(data + 4) = 0x0242;
	*(u16 *)(data + 6) = 0x0a02;
	*(u32 *)(data + 8) = *(u32 *)(ip + 12);
	return XDP_TX;
}
