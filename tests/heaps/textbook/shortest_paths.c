/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Dijkstra's algorithm on a matrix. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define NODES 24
int *cost;

static long step(int what, int key, int value)
{
	int from = (unsigned)key % NODES, to = (unsigned)value % NODES, *far, *done;
	long result;

	if (!cost) {
		cost = malloc(NODES * NODES * sizeof(int));
		if (!cost)
			return -2;
		for (int i = 0; i < NODES * NODES; i++)
			cost[i] = 0;
	}
	if (what == 1)
		return cost[from * NODES + to] = 1 + (value & 15);
	far = malloc(2 * NODES * sizeof(int));
	if (!far)
		return -2;
	done = far + NODES;
	for (int i = 0; i < NODES; i++) {
		far[i] = 1 << 30;
		done[i] = 0;
	}
	far[from] = 0;
	for (int round = 0; round < NODES; round++) {
		int at = -1;

		for (int i = 0; i < NODES; i++)
			if (!done[i] && (at < 0 || far[i] < far[at]))
				at = i;
		if (at < 0)
			break;
		done[at] = 1;
		for (int i = 0; i < NODES; i++) {
			int c = cost[at * NODES + i];

			if (c && far[at] + c < far[i])
				far[i] = far[at] + c;
		}
	}
	result = far[to];
	free(far);
	return result;
}

#include "run.h"
