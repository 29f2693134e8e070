/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Looks an address up by longest prefix, and enters a route the first time. */
#include "bench.h"

struct route {
	u32 prefix_bits, address;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct route);
	__type(value, u32);
	__uint(max_entries, 256);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} table SEC(".maps");

SEC("xdp") int map_lpm(struct xdp_md *context)
{
	PACKET(context, data);
	struct route route = { 32, *(u32 *)(data + 30) };
	u32 *hop = bpf_map_lookup_elem(&table, &route), first = 7;

	if (hop)
		return *hop;
	route.prefix_bits = 16;
	bpf_map_update_elem(&table, &route, &first, BPF_ANY);
	return XDP_PASS;
}
