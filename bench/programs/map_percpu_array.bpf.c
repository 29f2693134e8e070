/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts packets and bytes per CPU. */
#include "bench.h"

struct counters {
	u64 packets, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct counters);
	__uint(max_entries, 8);
} table SEC(".maps");

SEC("xdp") int map_percpu_array(struct xdp_md *context)
{
	u32 key = 2;
	struct counters *counters = bpf_map_lookup_elem(&table, &key);

	if (!counters)
		return XDP_ABORTED;
	counters->packets++;
	counters->bytes += context->data_end - context->data;
	return XDP_PASS;
}
