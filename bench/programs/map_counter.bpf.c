/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts packets by protocol, atomically. */
#include "bench.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 256);
} table SEC(".maps");

SEC("xdp") int map_counter(struct xdp_md *context)
{
	PACKET(context, data);
	u32 key = data[23];
	u64 *value = bpf_map_lookup_elem(&table, &key);

	if (!value)
		return XDP_ABORTED;
	__sync_fetch_and_add(value, context->data_end - context->data);
	return XDP_PASS;
}
