/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * User space in C, for crates/transform/sandbox/tests/heaps/user.rs. The map that it uses is its standard input.
 *
 *	native supply ADDRESS BYTES VARIABLES SUPPLY    supplies the heap, allocates; says what it got, and a block that it has left
 *	native damaged ADDRESS BYTES VARIABLES SUPPLY   what supply says of a heap whose state is damaged, and what malloc gives then
 *	native cancellation                             maps .bss.kiln: says the counts, and sets the terminate word
 */
#include <stdlib.h>
#include <string.h>

#include <kiln/user.h>

enum { SIZES = 5, EACH = 8 };

/* Blocks of several sizes, filled, checked and freed but for one. Returns how many were given. */
static int allocate(__u64 **left)
{
	static const __u64 sizes[SIZES] = { 8, 120, 3000, 40000, 1016 };
	__u64 *given[SIZES * EACH];
	int count = 0;

	for (int at = 0; at < SIZES * EACH; at++) {
		given[at] = kiln_malloc(sizes[at % SIZES]);
		if (given[at]) {
			memset(given[at], at, sizes[at % SIZES]);
			count++;
		}
	}
	for (int at = 0; at < SIZES * EACH; at++) {
		if (given[at] && *(unsigned char *)given[at] != at)
			return -1;
		if (at)
			kiln_free(given[at]);
	}
	*left = given[0];
	return count;
}

static int cancellation(void)
{
	struct kiln_cancellation *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, 0, 0);
	__u64 sum = 0;

	if (shared == MAP_FAILED) {
		printf("%s\n", strerror(errno));
		return 1;
	}
	for (int at = 0; at < KILN_POINTS; at++)
		sum += shared->points[at];
	printf("%llu %llu\n", sum, shared->terminate);
	shared->terminate = 1;
	return 0;
}

int main(int count, char **arguments)
{
	__u64 numbers[4] = { 0 }, *left = 0;
	int failed, given;

	if (count < 2)
		return 2;
	if (!strcmp(arguments[1], "cancellation"))
		return cancellation();
	for (int at = 2; at < count && at < 6; at++)
		numbers[at - 2] = strtoull(arguments[at], NULL, 10);
	if (kiln_heap_supply(numbers[2], numbers[3]) != -ENOENT)
		return 3;
	failed = kiln_heap_map(0, (void *)numbers[0], numbers[1]);
	if (failed) {
		printf("mapping the heap: %s\n", strerror(-failed));
		return 1;
	}
	if (!strcmp(arguments[1], "supply") && kiln_malloc(8))
		return 4;
	failed = kiln_heap_supply(numbers[2], numbers[3]);
	given = allocate(&left);
	printf("%d %d %llu\n", failed, given, (__u64)left);
	return 0;
}
