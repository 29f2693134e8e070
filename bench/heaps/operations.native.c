/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The operations as native code: requests on standard input; on standard output the sum, the nanoseconds taken, and the latency. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "operations.h"
#include "each.h"

struct order {
	__u64 operation; /* 0 fill, 1 lookup, 2 update, 3 delete, 4 nothing */
	__u64 latency; /* whether to measure it */
	struct request request;
};

static structure *all;

/* The time that this thread has run: waiting for a CPU does not count, as in the other places. */
static __u64 ran(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* What bpf_ktime_get_ns reads. */
static __always_inline __u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

#define OPERATION(name, operation)                                                                 \
	static __attribute__((noinline)) __u64 name(struct request *request)                       \
	{                                                                                          \
		__u64 random = request->seed, count = request->count, sum = 0, latency = 0;        \
                                                                                                   \
		for (; count; count--) {                                                           \
			operation;                                                                 \
		}                                                                                  \
		request->latency = latency;                                                        \
		return sum;                                                                        \
	}

#define BOTH(name, operation)                                                                      \
	OPERATION(name, operation)                                                                 \
	OPERATION(name##_latency, __u64 begun = now(); operation; latency = now() - begun)

OPERATION(fill, UPDATE(all, random, random + 1); random++)
EACH(BOTH)
#ifndef DELETE
#define delete update
#define delete_latency update_latency
#endif

int main(void)
{
	enum { BYTES = 64 << 20 };
	__u64 (*const operations[][2])(struct request *) = {
		{ fill, fill },
		{ lookup, lookup_latency },
		{ update, update_latency },
		{ delete, delete_latency },
		{ nothing, nothing_latency },
	};
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
		__u64 begun = ran(), answer[3];

		if (order.operation >= sizeof(operations) / sizeof(*operations))
			return 1;
		answer[0] = operations[order.operation][order.latency & 1](&order.request);
		answer[1] = ran() - begun;
		answer[2] = order.request.latency;
		fwrite(answer, sizeof(answer), 1, stdout);
	}
	return 0;
}
