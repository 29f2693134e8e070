/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Encodes 24 bytes in place of 32. */
#include "bench.h"

static const u8 alphabet[64] = {
	'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', 'P', 'Q', 'R', 'S', 'T', 'U', 'V',
	'W', 'X', 'Y', 'Z', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r',
	's', 't', 'u', 'v', 'w', 'x', 'y', 'z', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '+', '/',
};

SEC("xdp") int base64(struct xdp_md *context)
{
	PACKET(context, data);

	for (int i = 0; i < 8; i++) {
		u32 bits = data[3 * i] << 16 | data[3 * i + 1] << 8 | data[3 * i + 2];

		data[96 + 4 * i] = alphabet[bits >> 18];
		data[97 + 4 * i] = alphabet[bits >> 12 & 63];
		data[98 + 4 * i] = alphabet[bits >> 6 & 63];
		data[99 + 4 * i] = alphabet[bits & 63];
	}
	return XDP_TX;
}
