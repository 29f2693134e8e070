/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A table-driven automaton over packet bytes. */
#include "bench.h"

static const u8 next[8][4] = {
	{ 1, 0, 2, 3 }, { 1, 4, 0, 2 }, { 5, 0, 6, 1 }, { 7, 3, 0, 0 },
	{ 2, 5, 4, 1 }, { 0, 6, 7, 3 }, { 6, 1, 2, 5 }, { 4, 7, 3, 0 },
};

SEC("xdp") int state_machine(struct xdp_md *context)
{
	PACKET(context, data);
	u32 state = 0, accepted = 0;

	for (int i = 0; i < PACKET_BYTES; i++) {
		state = next[state & 7][data[i] >> 6];
		accepted += state == 5;
	}
	return accepted << 8 | state;
}
