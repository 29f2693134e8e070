/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A list through a heap of 8 GiB and another one: for the VM only. */
#include <kiln/heap.h>

kiln_heap(8ull << 30);
kiln_another_heap(other_heap, 1 << 20);

struct node {
	struct node *next;
	__u64 value;
};
struct node *head;
__u64 sum;

/* Adds up the list, and moves each value one node on. */
SEC("xdp")
int walk(struct xdp_md *ctx)
{
	__u64 last = 0, value;

	sum = 0;
	for (struct node *node = head; node; node = node->next) {
		value = node->value;
		sum += value;
		node->value = last;
		last = value;
	}
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
