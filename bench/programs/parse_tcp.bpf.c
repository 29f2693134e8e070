/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Ethernet, IPv4 and TCP headers, with every check a real parser makes. */
#include "bench.h"

SEC("xdp") int parse_tcp(struct xdp_md *context)
{
	u8 *data = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;

	if (data + 14 > end || *(u16 *)(data + 12) != __builtin_bswap16(0x0800))
		return XDP_PASS;
	u8 *ip = data + 14;
	if (ip + 20 > end || ip[0] >> 4 != 4)
		return XDP_ABORTED;
	u32 header = (ip[0] & 15) * 4;
	if (header < 20 || ip[8] == 0 || ip[9] != 6 || *(u16 *)(ip + 6) & __builtin_bswap16(0x3fff))
		return XDP_DROP;
	u8 *tcp = ip + header;
	if (tcp + 20 > end)
		return XDP_ABORTED;
	u32 source = __builtin_bswap16(*(u16 *)tcp), destination = __builtin_bswap16(*(u16 *)(tcp + 2));
	u32 flags = tcp[13] & 0x3f;
	if (destination == 22 || (source < 1024 && flags & 2))
		return XDP_DROP;
	if (flags == 0x12 || flags == 0x10)
		return XDP_TX;
	return __builtin_bswap32(*(u32 *)(ip + 12)) >> 24 == 10 ? XDP_PASS : XDP_REDIRECT;
}
