/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every operation on every kind of map that programs have, with flags and keys from the packet. */
#include "helpers.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct key {
	u32 a, b, c;
};

#define TABLE(name, kind, keys, entries, flags)                                                                       \
	struct {                                                                                                       \
		__uint(type, kind);                                                                                   \
		__type(key, keys);                                                                                    \
		__type(value, u64);                                                                                   \
		__uint(max_entries, entries);                                                                         \
		__uint(map_flags, flags);                                                                             \
	} name SEC(".maps")

TABLE(array, BPF_MAP_TYPE_ARRAY, u32, 7, 0);
TABLE(hash, BPF_MAP_TYPE_HASH, u32, 5, 0);
TABLE(hash_later, BPF_MAP_TYPE_HASH, struct key, 6, BPF_F_NO_PREALLOC);
TABLE(per_cpu, BPF_MAP_TYPE_PERCPU_ARRAY, u32, 3, 0);
TABLE(per_cpu_hash, BPF_MAP_TYPE_PERCPU_HASH, u64, 4, 0);

struct prefix {
	u32 bits;
	u8 address[4];
};

TABLE(trie, BPF_MAP_TYPE_LPM_TRIE, struct prefix, 12, BPF_F_NO_PREALLOC);

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, u32);
	__uint(max_entries, 3);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__type(value, u32);
	__uint(max_entries, 3);
} stack SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
	__type(value, u32);
	__uint(max_entries, 100);
} bloom SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__type(key, u32);
	__type(value, u32);
	__uint(max_entries, 4);
} devices SEC(".maps");

#define EXERCISE(map, key, value, flags)                                                                              \
	do {                                                                                                          \
		u64 *found = bpf_map_lookup_elem(map, key);                                                           \
		result(found ? *found : 0xdead);                                                                      \
		result(bpf_map_update_elem(map, key, value, flags));                                                  \
		if (found)                                                                                            \
			*found += 3;                                                                                  \
		found = bpf_map_lookup_elem(map, key);                                                                \
		result(found ? *found : 0xdead);                                                                      \
		if ((*(value) & 7) == 5)                                                                              \
			result(bpf_map_delete_elem(map, key));                                                        \
	} while (0)

static long count_element(void *map, const void *key, u64 *value, u64 *sum)
{
	*sum += *value;
	return 0;
}

static long count_round(u32 round, u64 *sum)
{
	*sum += round;
	return *sum > 40;
}

SEC("xdp") int maps(struct xdp_md *context)
{
	u8 *data = (u8 *)(long)context->data;
	u32 key, flags, small, popped = 7, *place;
	struct key wide;
	struct prefix prefix;
	u64 value, long_key, sum = 0;

	if (data + 64 > (u8 *)(long)context->data_end)
		return XDP_ABORTED;
	value = *(u32 *)(data + 46);
	key = data[47] % 8;
	flags = data[48] % 4;
	small = data[49];
	wide = (struct key){ data[50] % 3, data[51] % 3, 1 };
	long_key = data[52] % 6;
	prefix = (struct prefix){ data[53] % 34, { 10, data[54] % 4, data[55], data[56] } };

	EXERCISE(&array, &key, &value, flags);
	EXERCISE(&hash, &key, &value, flags);
	EXERCISE(&hash_later, &wide, &value, flags);
	EXERCISE(&per_cpu, &key, &value, flags);
	EXERCISE(&per_cpu_hash, &long_key, &value, flags);
	EXERCISE(&trie, &prefix, &value, flags);

	result(bpf_map_push_elem(&queue, &small, flags));
	result(bpf_map_push_elem(&stack, &small, flags & 2));
	result(bpf_map_peek_elem(&queue, &popped));
	result(popped);
	if (data[57] & 1) {
		result(bpf_map_pop_elem(&queue, &popped));
		result(popped);
		result(bpf_map_pop_elem(&stack, &popped));
		result(popped);
	}
	result(bpf_map_push_elem(&bloom, &small, 0));
	result(bpf_map_peek_elem(&bloom, &small));
	result(bpf_map_push_elem(&bloom, &small, 1));

	place = bpf_ringbuf_reserve(&ring, sizeof(*place), 0);
	if (place) {
		*place = small;
		if (data[58] & 1)
			bpf_ringbuf_submit(place, 0);
		else
			bpf_ringbuf_discard(place, 0);
	}
	result(!!place);
	result(bpf_ringbuf_output(&ring, &wide, sizeof(wide), 0));
	result(bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA));
	result(bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE));
	result(bpf_ringbuf_query(&ring, BPF_RB_CONS_POS));
	result(bpf_ringbuf_query(&ring, BPF_RB_PROD_POS));

	result(bpf_for_each_map_elem(&array, count_element, &sum, 0));
	result(bpf_for_each_map_elem(&hash, count_element, &sum, 0));
	result(bpf_loop(small, count_round, &sum, 0));
	result(bpf_loop(1 << 24, count_round, &sum, 0));
	result(sum);

	result(bpf_redirect_map(&devices, key, flags));
	result(bpf_redirect_map(&devices, key, data[59]));
	return XDP_PASS;
}
