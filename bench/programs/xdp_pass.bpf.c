/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Nothing: what a run itself costs. */
#include "bench.h"

SEC("xdp") int xdp_pass(struct xdp_md *context)
{
	return XDP_PASS;
}
