/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the helper tests share. A test reads its arguments from the packet, so that each packet tries others, and
 * writes what helpers answer to `results`, which the runner compares.
 */
#pragma once
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define RESULTS 64

u64 results[RESULTS];
u32 result_count;

static inline void result(u64 value)
{
	u32 at = result_count++ % RESULTS;

	if (at < RESULTS)
		results[at] = results[at] * 31 + value;
}
