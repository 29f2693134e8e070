/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Writes four entries of a hash. */
#include "bench.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 1024);
} table SEC(".maps");

SEC("xdp") int map_hash_update(struct xdp_md *context)
{
	PACKET(context, data);

	for (int i = 0; i < 4; i++) {
		u32 key = *(u32 *)(data + 4 * i);
		u64 value = key * 3;

		bpf_map_update_elem(&table, &key, &value, BPF_ANY);
	}
	return XDP_PASS;
}
