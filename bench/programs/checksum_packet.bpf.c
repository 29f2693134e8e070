/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The checksum of a packet of unknown length, in a checked loop. */
#include "bench.h"

SEC("xdp") int checksum_packet(struct xdp_md *context)
{
	u8 *at = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	u64 sum = 0;

	for (int i = 0; i < 128; i++) {
		if (at + 2 > end)
			break;
		sum += *(u16 *)at;
		at += 2;
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}
