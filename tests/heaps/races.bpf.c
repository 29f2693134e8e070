/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A racer as a program, on the structure that -DRACES=hash and its like choose: see races.h. */
#include "races.h"

kiln_heap(8 << 20);

KILN_FUNCTION void *zeroed(__u64 bytes)
{
	__u64 *memory = kiln_malloc(bytes);

	if (memory)
		for (__u64 at = 0; at < bytes / 8; at++)
			memory[at] = 0;
	return memory;
}

KILN_FUNCTION int create_maps(struct world *world)
{
	world->countmin = zeroed(sizeof(*world->countmin));
	world->count = zeroed(sizeof(*world->count));
	return !world->countmin || !world->count || kiln_hash_create(&world->hash.own, 64) ||
	       kiln_skip_create(&world->skip.own, 88172645463325252ull) || kiln_clock_create(&world->clock.own, 128) ||
	       kiln_cuckoo_create(&world->cuckoo.own, 64);
}

KILN_FUNCTION int create_others(struct world *world)
{
	return kiln_wheel_create(&world->wheel.own, 64, 0) || kiln_bloom_create(&world->bloom, 65536) ||
	       kiln_ring_create(&world->rings[0], 32) || kiln_ring_create(&world->rings[1], 32) ||
	       kiln_ring_create(&world->rings[2], 32);
}

KILN_FUNCTION struct world *create(__u64 racing)
{
	struct world *world = zeroed(sizeof(*world));

	if (!world || create_maps(world) || create_others(world))
		return 0;
	world->racing = racing;
	for (__u64 me = 0; me < racing && me < RACERS; me++)
		world->racers[me].random = 0x9e3779b97f4a7c15ull * (me + 1);
	return world;
}

#define PROGRAM(name, operation)                                                                   \
	SEC("xdp")                                                                                 \
	int name(struct xdp_md *ctx)                                                               \
	{                                                                                          \
		void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;          \
		struct request *request = data;                                                    \
		struct world *world __attribute__((unused));                                       \
		__u64 me, times __attribute__((unused)), result = 0;                               \
                                                                                                   \
		if ((void *)(request + 1) > end)                                                   \
			return XDP_ABORTED;                                                        \
		world = request->world;                                                            \
		me = request->racer;                                                               \
		times = request->times;                                                            \
		if (me >= RACERS)                                                                  \
			return XDP_ABORTED;                                                        \
		operation;                                                                         \
		request = (void *)(long)ctx->data;                                                 \
		if ((void *)(request + 1) > (void *)(long)ctx->data_end)                           \
			return XDP_ABORTED;                                                        \
		request->result = result;                                                          \
		return XDP_TX; /* a cancelled run returns XDP_PASS */                              \
	}

#define RACE(name)                                                                                 \
	PROGRAM(race, for (; times; times--, result++) {                                    \
		struct racer *racer = &world->racers[me];                                          \
		step_##name(world, racer, me);                                                     \
		racer->steps++;                                                                    \
	})

PROGRAM(setup, result = (__u64)(unsigned long)create(times))
/* One structure per object: -DRACES=hash. */
#define RACE_OF(name) RACE(name)
RACE_OF(RACES)

char LICENSE[] SEC("license") = "GPL";
