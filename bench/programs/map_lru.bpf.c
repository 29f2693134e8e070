/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Remembers flows in an LRU hash. */
#include "bench.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, u64);
	__type(value, u64);
	__uint(max_entries, 512);
} table SEC(".maps");

SEC("xdp") int map_lru(struct xdp_md *context)
{
	PACKET(context, data);
	u64 key = *(u64 *)(data + 26), now = data[23];
	u64 *value = bpf_map_lookup_elem(&table, &key);

	if (value)
		*value ^= now;
	else
		bpf_map_update_elem(&table, &key, &now, BPF_ANY);
	return XDP_PASS;
}
