/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Finds the end of a string in the packet. */
#include "bench.h"

SEC("xdp") int scan_string(struct xdp_md *context)
{
	u8 *at = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	u32 spaces = 0, length = 0;

	at += 14;
	for (; length < 200; length++) {
		if (at + 1 > end || *at == 0xff)
			break;
		spaces += *at == 0x20 || *at == 0x0a;
		at++;
	}
	return length << 8 | spaces;
}
