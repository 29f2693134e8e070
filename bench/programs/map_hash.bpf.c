/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Looks a flow up in a hash, and enters it the first time. */
#include "bench.h"

struct flow {
	u32 source, destination;
	u32 ports;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct flow);
	__type(value, u64);
	__uint(max_entries, 1024);
} table SEC(".maps");

SEC("xdp") int map_hash(struct xdp_md *context)
{
	PACKET(context, data);
	struct flow flow = { *(u32 *)(data + 26), *(u32 *)(data + 30), *(u32 *)(data + 34) };
	u64 *value = bpf_map_lookup_elem(&table, &flow), one = 1;

	if (value)
		*value += 1;
	else
		bpf_map_update_elem(&table, &flow, &one, BPF_ANY);
	return XDP_PASS;
}
