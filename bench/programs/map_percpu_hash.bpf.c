/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts a source address per CPU. */
#include "bench.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 512);
} table SEC(".maps");

SEC("xdp") int map_percpu_hash(struct xdp_md *context)
{
	PACKET(context, data);
	u32 key = *(u32 *)(data + 26);
	u64 *value = bpf_map_lookup_elem(&table, &key), one = 1;

	if (value)
		*value += 1;
	else
		bpf_map_update_elem(&table, &key, &one, BPF_ANY);
	return XDP_PASS;
}
