/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the tests of data structures share: an operation on one of them. */
#ifndef ORDER_H
#define ORDER_H

#include <kiln/heap.h>

struct order {
	__u64 structure, operation, key, value; /* operation: 0 look up, 1 update, 2 delete */
	__u64 result, found;
};

/* Memory for a structure, all zeros; NULL when there is none. */
KILN_FUNCTION void *zeroed(__u64 bytes)
{
	__u64 *memory = kiln_malloc(bytes);

	if (memory)
		for (__u64 at = 0; at < bytes / 8; at++)
			memory[at] = 0;
	return memory;
}

#endif
