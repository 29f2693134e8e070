/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The racer in user space: maps the heap whose arena is its standard input, and takes its steps until it is told to stop. Now
 * and then it takes a structure's lock and checks all of it.
 *
 *	native race STRUCTURE ADDRESS BYTES WORLD RACER    steps until `world->stop`
 *	native hold - ADDRESS BYTES LOCK                   takes a lock and keeps it
 *	native break - ADDRESS BYTES LOCK                  releases it, if its holder is dead
 *	native check - ADDRESS BYTES WORLD                 what is wrong when all have stopped; the heap may be a copy
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/user.h>

#include "races_check.h"

static struct world *world;

#define SOUND(name) (__u64)kiln_shared_call(&world->name, sound_##name(&world->name.own))
#define RACE(name, sound)                                                                          \
	static __u64 sound_of_##name(void)                                                         \
	{                                                                                          \
		return sound;                                                                      \
	}
RACE(hash, SOUND(hash))
RACE(tree, SOUND(tree))
RACE(skip, SOUND(skip))
RACE(list, SOUND(list))
RACE(bp, SOUND(bp))
RACE(clock, SOUND(clock))
RACE(wheel, SOUND(wheel))
RACE(cuckoo, 0)
RACE(ring, 0)
RACE(bloom, 0)
RACE(countmin, 0)
RACE(malloc, 0)

#define STRUCTURE(name) { #name, step_##name, sound_of_##name }
static const struct {
	const char *name;
	int (*step)(struct world *, struct racer *, __u64);
	__u64 (*sound)(void);
} structures[] = {
	STRUCTURE(hash),   STRUCTURE(tree), STRUCTURE(skip),  STRUCTURE(list),  STRUCTURE(bp),       STRUCTURE(clock),
	STRUCTURE(cuckoo), STRUCTURE(ring), STRUCTURE(bloom), STRUCTURE(wheel), STRUCTURE(countmin), STRUCTURE(malloc),
};

static int race(const char *name, __u64 me)
{
	struct racer *racer = &world->racers[me];
	__u64 checks = 0, wrongs = 0;

	for (__u64 at = 0; at < sizeof(structures) / sizeof(*structures); at++) {
		if (strcmp(structures[at].name, name))
			continue;
		while (!*(volatile __u64 *)&world->stop) {
			structures[at].step(world, racer, me);
			/* Programs wait for a CPU as well. */
			if (!(++racer->steps & 63))
				usleep(20);
			if (!(racer->steps & 1023)) {
				wrongs += structures[at].sound();
				checks++;
			}
		}
	}
	printf("%llu %llu %llu\n", racer->steps, checks, wrongs);
	return wrongs != 0;
}

int main(int count, char **arguments)
{
	__u64 numbers[4] = { 0 };
	int failed;

	for (int at = 3; at < count && at < 7; at++)
		numbers[at - 3] = strtoull(arguments[at], NULL, 10);
	if (count < 6)
		return 2;
	failed = kiln_heap_map(0, (void *)numbers[0], numbers[1]);
	if (failed) {
		fprintf(stderr, "mapping the heap: %s\n", strerror(-failed));
		return 3;
	}
	if (!strcmp(arguments[1], "race")) {
		world = (struct world *)numbers[2];
		return numbers[3] < RACERS ? race(arguments[2], numbers[3]) : 2;
	}
	if (!strcmp(arguments[1], "hold")) {
		kiln_user_lock((kiln_spinlock_t *)numbers[2]);
		puts("held");
		fflush(stdout);
		pause();
		return 0;
	}
	if (!strcmp(arguments[1], "check")) {
		world = (struct world *)numbers[2];
		printf("%llu\n", check_all(world));
		for (__u64 me = 0; me < RACERS; me++)
			printf("racer %llu: %llu steps, %llu errors, first %#llx\n", me, world->racers[me].steps,
			       world->racers[me].errors, world->racers[me].first_error);
		return 0;
	}
	printf("%d\n", kiln_user_break((kiln_spinlock_t *)numbers[2]));
	return 0;
}
