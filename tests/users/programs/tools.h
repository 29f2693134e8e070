// What all of these programs include: the running kernel's types, and libbpf's headers.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>

#define NAME_BYTES 16
#define BUCKETS 26

char LICENSE[] SEC("license") = "GPL";

// The bucket of a histogram: the position of the highest bit.
static __always_inline __u32 bucket(__u64 number)
{
	__u32 position = 0;

	for (int step = 5; step >= 0; step--) {
		__u32 shift = 1u << step;
		if (number >> shift) {
			number >>= shift;
			position += shift;
		}
	}
	return position < BUCKETS ? position : BUCKETS - 1;
}
