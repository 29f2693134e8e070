/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The same operations as native code: orders on standard input, the same with results on standard output. */
#include <stdio.h>
#include <stdlib.h>

#include "structures.h"

int main(void)
{
	enum { BYTES = 8 << 20 };
	char *memory = aligned_alloc(BYTES, BYTES);
	struct kiln_hash *hash;
	struct kiln_list *list;
	struct kiln_tree *tree;
	struct kiln_skip *skip;
	struct kiln_countmin *countmin;
	struct kiln_count *count;
	struct order order;

	if (!memory)
		return 1;
	kiln_heap_supply(memory, BYTES);
	hash = create_hash();
	list = create_list();
	tree = create_tree();
	skip = create_skip();
	countmin = create_countmin();
	count = create_count();
	if (!hash || !list || !tree || !skip || !countmin || !count)
		return 1;
	while (fread(&order, sizeof(order), 1, stdin) == 1) {
		order.result = order.found = 0;
		switch (order.structure) {
		case 0:
			perform_hash(hash, &order);
			break;
		case 1:
			perform_list(list, &order);
			break;
		case 2:
			perform_tree(tree, &order);
			break;
		case 3:
			perform_skip(skip, &order);
			break;
		case 4:
			perform_countmin(countmin, &order);
			break;
		case 5:
			perform_count(count, &order);
			break;
		}
		fwrite(&order, sizeof(order), 1, stdout);
	}
	return 0;
}
