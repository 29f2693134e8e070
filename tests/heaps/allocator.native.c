/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The allocator as native code: orders of crates/transform/sandbox/tests/heaps on standard input (allocator.bpf.c has their
 * form, with addresses as offsets from the first of 16 slabs), the same with results on standard output.
 */
#include <stdio.h>
#include <stdlib.h>

#include <kiln/heap.h>

struct order {
	__u64 operation, bytes, memory;
};

int main(void)
{
	enum { BYTES = 16 * KILN_SLAB_BYTES + KILN_PAGE_BYTES };
	char *start = aligned_alloc(KILN_PAGE_BYTES, BYTES);
	struct order order;

	if (!start)
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	kiln_heap_supply(start, BYTES);
	start = (char *)kiln_state()->start;
	while (fread(&order, sizeof(order), 1, stdin) == 1) {
		void *memory = order.memory ? start + order.memory : 0, *got = memory;

		if (order.operation == 0)
			got = kiln_malloc(order.bytes);
		else if (order.operation == 1)
			kiln_free(memory);
		else
			got = kiln_realloc(memory, order.bytes);
		order.memory = got ? (char *)got - start : 0;
		fwrite(&order, sizeof(order), 1, stdout);
	}
	return 0;
}
