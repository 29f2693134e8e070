/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Kahn's algorithm: a topological order. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define NODES 32
struct edge {
	struct edge *next;
	int to;
};
struct edge **edges;

static long step(int what, int key, int value)
{
	int from = key & (NODES - 1), to = value & (NODES - 1);
	int *degree, *ready, first = 0, last = 0;
	long sum = 0;

	if (!edges) {
		edges = malloc(NODES * sizeof(*edges));
		if (!edges)
			return -2;
		for (int i = 0; i < NODES; i++)
			edges[i] = 0;
	}
	if (what == 1) {
		struct edge *e = malloc(sizeof(*e));

		if (!e)
			return -2;
		e->to = to > from ? to : NODES - 1;
		e->next = edges[from];
		edges[from] = e;
		return 0;
	}
	degree = malloc(2 * NODES * sizeof(int));
	if (!degree)
		return -2;
	ready = degree + NODES;
	for (int i = 0; i < NODES; i++)
		degree[i] = 0;
	for (int i = 0; i < NODES; i++)
		for (struct edge *e = edges[i]; e; e = e->next)
			degree[e->to]++;
	for (int i = 0; i < NODES; i++)
		if (!degree[i])
			ready[last++] = i;
	while (first < last) {
		int at = ready[first++];

		sum = sum * 7 + at;
		for (struct edge *e = edges[at]; e; e = e->next)
			if (--degree[e->to] == 0)
				ready[last++] = e->to;
	}
	free(degree);
	return sum;
}

#include "run.h"
