/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Depth-first search with a stack of its own. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define NODES 64
struct edge {
	struct edge *next;
	int to;
};
struct vertex {
	struct edge *edges;
	int seen;
};
struct vertex *graph;

static int begin(void)
{
	if (!graph) {
		graph = malloc(NODES * sizeof(*graph));
		if (!graph)
			return 0;
		for (int i = 0; i < NODES; i++)
			graph[i].edges = 0;
	}
	for (int i = 0; i < NODES; i++)
		graph[i].seen = 0;
	return 1;
}

static long connect(int from, int to)
{
	struct edge *e = malloc(sizeof(*e));

	if (!e)
		return -2;
	e->to = to % NODES;
	e->next = graph[from % NODES].edges;
	graph[from % NODES].edges = e;
	return 0;
}

struct todo {
	struct todo *next;
	int at;
};

static long step(int what, int key, int value)
{
	struct todo *top, *more;
	long sum = 0;

	key &= NODES - 1;
	if (!begin())
		return -2;
	if (what == 1)
		return connect(key, (unsigned)value);
	top = malloc(sizeof(*top));
	if (!top)
		return -2;
	top->next = 0;
	top->at = key;
	while (top) {
		struct todo *now = top;
		int at = now->at;

		top = now->next;
		free(now);
		if (graph[at].seen)
			continue;
		graph[at].seen = 1;
		sum = sum * 31 + at;
		for (struct edge *e = graph[at].edges; e; e = e->next) {
			more = malloc(sizeof(*more));
			if (!more)
				return -2;
			more->at = e->to;
			more->next = top;
			top = more;
		}
	}
	return sum;
}

#include "run.h"
