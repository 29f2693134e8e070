/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the clients of the key-value benches share. */
#ifndef KV_COMMON_H
#define KV_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The time in microseconds. */
static inline double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

static inline void fail(const char *what)
{
	perror(what);
	exit(1);
}

#endif
