/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Disjoint sets, by rank and with path compression. */
#include <kiln/heap.h>

#define malloc kiln_malloc
#define free kiln_free

kiln_heap(8 << 20);

#define SIZE 128
int *parent, *rank;

static int find(int x)
{
	int root = x;

	while (parent[root] != root)
		root = parent[root];
	while (parent[x] != root) {
		int up = parent[x];

		parent[x] = root;
		x = up;
	}
	return root;
}

static long step(int what, int key, int value)
{
	int a = key & (SIZE - 1), b = value & (SIZE - 1);

	if (!parent) {
		parent = malloc(SIZE * sizeof(int));
		rank = malloc(SIZE * sizeof(int));
		if (!parent || !rank)
			return -2;
		for (int i = 0; i < SIZE; i++) {
			parent[i] = i;
			rank[i] = 0;
		}
	}
	a = find(a);
	b = find(b);
	if (what != 1)
		return a == b;
	if (a == b)
		return 0;
	if (rank[a] < rank[b]) {
		parent[a] = b;
	} else {
		parent[b] = a;
		rank[a] += rank[a] == rank[b];
	}
	return 1;
}

#include "run.h"
