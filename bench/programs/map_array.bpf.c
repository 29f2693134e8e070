/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sums eight entries of an array. */
#include "bench.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 256);
} table SEC(".maps");

SEC("xdp") int map_array(struct xdp_md *context)
{
	PACKET(context, data);
	u64 sum = 0;

	for (int i = 0; i < 8; i++) {
		u32 key = data[i];
		u64 *value = bpf_map_lookup_elem(&table, &key);

		if (value)
			sum += *value + 1;
	}
	return sum;
}
