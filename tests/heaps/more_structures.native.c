/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The same operations as native code: orders on standard input, the same with results on standard output. */
#include <stdio.h>
#include <stdlib.h>

#include "more_structures.h"

int main(void)
{
	enum { BYTES = 8 << 20 };
	char *memory = aligned_alloc(BYTES, BYTES);
	struct kiln_bp *bp;
	struct kiln_clock *clock;
	struct kiln_wheel *wheel;
	struct kiln_ring *ring;
	struct kiln_bloom *bloom;
	struct kiln_cuckoo *cuckoo;
	struct order order;

	if (!memory)
		return 1;
	kiln_heap_supply(memory, BYTES);
	bp = create_bp();
	clock = create_clock();
	wheel = create_wheel();
	ring = create_ring();
	bloom = create_bloom();
	cuckoo = create_cuckoo();
	if (!bp || !clock || !wheel || !ring || !bloom || !cuckoo)
		return 1;
	while (fread(&order, sizeof(order), 1, stdin) == 1) {
		order.result = order.found = 0;
		switch (order.structure) {
		case 0:
			perform_bp(bp, &order);
			break;
		case 1:
			perform_clock(clock, &order);
			break;
		case 2:
			perform_wheel(wheel, &order);
			break;
		case 3:
			perform_ring(ring, &order);
			break;
		case 4:
			perform_bloom(bloom, &order);
			break;
		case 5:
			perform_cuckoo(cuckoo, &order);
			break;
		}
		fwrite(&order, sizeof(order), 1, stdout);
	}
	return 0;
}
