/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Protocols of packets in a table: those with ports, those about addresses, others. */
#include "bench.h"

SEC("xdp") int branch_protocols(struct xdp_md *context)
{
	PACKET(context, data);
	u32 ports = 0, others = 0;

	for (int i = 0; i < 96; i++) {
		u32 protocol = data[i] & 63;

		if (protocol == 6 || protocol == 17 || protocol == 33)
			ports += i;
		else if (protocol == 1 || protocol == 2 || protocol == 58)
			others ^= ports;
		else
			others++;
	}
	return ports << 8 ^ others;
}
