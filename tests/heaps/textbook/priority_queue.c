/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A priority queue: a list in order of priority, equal ones in order of arrival. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

struct job {
	int priority, id;
	struct job *next;
};
struct job *jobs;

static long step(int what, int key, int value)
{
	struct job *j, *at = jobs;

	if (what == 1) {
		j = malloc(sizeof(*j));
		if (!j)
			return -2;
		j->priority = key;
		j->id = value;
		if (!at || at->priority > key) {
			j->next = jobs;
			jobs = j;
			return 0;
		}
		while (at->next && at->next->priority <= key)
			at = at->next;
		j->next = at->next;
		at->next = j;
		return 1;
	}
	if (!at)
		return -1;
	if (what == 0)
		return at->id;
	jobs = at->next;
	value = at->id;
	free(at);
	return value;
}

#include "run.h"
