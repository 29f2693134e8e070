/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Copies 48 bytes within the packet, and swaps addresses. */
#include "bench.h"

SEC("xdp") int copy_packet(struct xdp_md *context)
{
	PACKET(context, data);
	u8 address[6];

	__builtin_memcpy(address, data, 6);
	__builtin_memcpy(data, data + 6, 6);
	__builtin_memcpy(data + 6, address, 6);
	for (int i = 0; i < 48; i += 8)
		*(u64 *)(data + 72 + i) = *(u64 *)(data + 16 + i) ^ *(u64 *)(data + 24 + i);
	return XDP_TX;
}
