/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The operations as XDP programs, a request in the packet, and what one of them takes; -DSTRUCTURE_bpf_hash measures BPF_MAP_TYPE_HASH. */
#include "operations.h"

#ifdef STRUCTURE_bpf_hash
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, 2 * KEYS);
} elements SEC(".maps");
kiln_heap(4096);

#define SETUP()
#define LOOKUP(all, key) ({ __u64 own = key, *found = bpf_map_lookup_elem(&elements, &own); found ? *found : 0; })
#define UPDATE(all, key, value)                                                                    \
	({ __u64 own = key, new = value; bpf_map_update_elem(&elements, &own, &new, BPF_ANY); })
#define DELETE(all, key) ({ __u64 own = key; bpf_map_delete_elem(&elements, &own); })
#else
kiln_heap(64 << 20);
structure *all;

#define SETUP()                                                                                    \
	if (!all && !(all = create()))                                                             \
		return XDP_DROP;
#endif

#include "each.h"

#define PROGRAM(name, operation)                                                                   \
	SEC("xdp")                                                                                 \
	int name(struct xdp_md *ctx)                                                               \
	{                                                                                          \
		void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;          \
		struct request *request = data;                                                    \
		__u64 random, count, sum = 0, latency = 0;                                         \
                                                                                                   \
		if ((void *)(request + 1) > end)                                                   \
			return XDP_ABORTED;                                                        \
		random = request->seed;                                                            \
		count = request->count;                                                            \
		SETUP()                                                                            \
		for (; count; count--) {                                                           \
			operation;                                                                 \
		}                                                                                  \
		data = (void *)(long)ctx->data;                                                    \
		end = (void *)(long)ctx->data_end;                                                 \
		request = data;                                                                    \
		if ((void *)(request + 1) > end)                                                   \
			return XDP_ABORTED;                                                        \
		request->sum = sum;                                                                \
		request->latency = latency;                                                        \
		return XDP_PASS;                                                                   \
	}

#define BOTH(name, operation)                                                                      \
	PROGRAM(name, operation)                                                                   \
	PROGRAM(name##_latency, __u64 begun = bpf_ktime_get_ns(); operation; latency = bpf_ktime_get_ns() - begun)

PROGRAM(fill, UPDATE(all, random, random + 1); random++)
EACH(BOTH)

char LICENSE[] SEC("license") = "GPL";
