/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Classes of ports by ranges and lists. */
#include "bench.h"

SEC("xdp") int branch_ports(struct xdp_md *context)
{
	PACKET(context, data);
	u32 classes = 0;

	for (int i = 0; i < 60; i++) {
		u32 port = *(u16 *)(data + 2 * i);

		if (port == 22 || port == 80 || port == 443 || port == 8080)
			classes += 1;
		else if (port < 1024)
			classes += 0x100;
		else if (port >= 32768 && port < 61000)
			classes += 0x10000;
		else
			classes ^= 0x1000000;
	}
	return classes;
}
