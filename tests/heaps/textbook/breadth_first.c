/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Breadth-first search in a graph of adjacency lists. */
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

static long step(int what, int key, int value)
{
	int *queue, first = 0, last = 0, target = (unsigned)value % NODES;
	long found = -1;

	key &= NODES - 1;
	if (!begin())
		return -2;
	if (what == 1)
		return connect(key, (unsigned)value);
	queue = malloc(NODES * sizeof(int));
	if (!queue)
		return -2;
	graph[key].seen = 1;
	queue[last++] = key;
	while (first < last) {
		int at = queue[first++];

		if (at == target) {
			found = graph[at].seen;
			break;
		}
		for (struct edge *e = graph[at].edges; e; e = e->next)
			if (!graph[e->to].seen) {
				graph[e->to].seen = graph[at].seen + 1;
				queue[last++] = e->to;
			}
	}
	free(queue);
	return found;
}

#include "run.h"
