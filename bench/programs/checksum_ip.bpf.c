/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The checksum of one IPv4 header, folded. */
#include "bench.h"

SEC("xdp") int checksum_ip(struct xdp_md *context)
{
	PACKET(context, data);
	u16 *words = (u16 *)(data + 14);
	u32 sum = 0;

#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}
