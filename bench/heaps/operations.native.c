/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The operations as native code: requests on standard input; on standard output the sum, and the nanoseconds taken. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "operations.h"

struct order {
	__u64 operation; /* 0 fill, 1 lookup, 2 update, 3 delete */
	struct request request;
};

static structure *all;

#define OPERATION(name, operation)                                                                 \
	static __attribute__((noinline)) __u64 name(struct request *request)                       \
	{                                                                                          \
		__u64 random = request->seed, count = request->count, sum = 0;                     \
                                                                                                   \
		for (; count; count--) {                                                           \
			operation;                                                                 \
		}                                                                                  \
		return sum;                                                                        \
	}

OPERATION(fill, UPDATE(all, random, random + 1); random++)
OPERATION(lookup, random = next(random); sum += LOOKUP(all, KEY(random)))
OPERATION(update, random = next(random); UPDATE(all, KEY(random), random))
#ifdef DELETE
#ifdef DELETES_ONLY
OPERATION(delete, random = next(random); DELETE(all, KEY(random)))
#else
OPERATION(delete, random = next(random); DELETE(all, KEY(random)); UPDATE(all, KEY(random), random))
#endif
#else
#define delete update
#endif

/* The time that this thread has run: waiting for a CPU does not count, as in the other places. */
static __u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

int main(void)
{
	enum { BYTES = 64 << 20 };
	__u64 (*const operations[4])(struct request *) = { fill, lookup, update, delete };
	char *memory = aligned_alloc(BYTES, BYTES);
	struct order order;

	if (!memory)
		return 1;
	kiln_heap_supply(memory, BYTES);
	all = create();
	if (!all)
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	while (fread(&order, sizeof(order), 1, stdin) == 1) {
		__u64 begun = now(), answer[2];

		answer[0] = operations[order.operation & 3](&order.request);
		answer[1] = now() - begun;
		fwrite(answer, sizeof(answer), 1, stdout);
	}
	return 0;
}
