/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Allocates and frees as the packet says, for crates/transform/sandbox/tests/heaps. */
#include <kiln/heap.h>

struct order {
	__u64 operation; /* 0 malloc, 1 free, 2 realloc, 3 write */
	__u64 bytes;
	__u64 memory; /* in: what to free or change; out: what was given */
};

kiln_heap(1 << 20);

SEC("xdp")
int allocator(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct order *order = data;
	void *memory;

	if ((void *)(order + 1) > end)
		return XDP_ABORTED;
	memory = (void *)(unsigned long)order->memory;
	switch (order->operation) {
	case 0:
		memory = kiln_malloc(order->bytes);
		break;
	case 1:
		kiln_free(memory);
		break;
	case 2:
		memory = kiln_realloc(memory, order->bytes);
		break;
	case 3:
		*(__u64 *)memory = order->bytes;
		break;
	}
	order = (void *)(long)ctx->data;
	if ((void *)(order + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	order->memory = (__u64)(unsigned long)memory;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
