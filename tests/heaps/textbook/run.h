/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Runs one structure: `long step(int what, int key, int value)` for each order, in a program at XDP, or natively in a process that
 * reads orders and writes answers. Included last by each file here. They are written as in a textbook, with plain pointers and
 * loops, and malloc.
 */
#ifdef __bpf__
struct order {
	int what, key, value, reserved;
	long answer;
};

SEC("xdp")
int textbook(struct xdp_md *ctx)
{
	struct order *order = (void *)(long)ctx->data;

	if ((void *)(order + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	order->answer = step(order->what, order->key, order->value);
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
#else
#include <stdio.h>
#include <sys/mman.h>

int main(void)
{
	void *memory = mmap((void *)0x200000000, 4 << 20, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	int order[3];

	if (memory == MAP_FAILED)
		return 1;
	kiln_heap_supply(memory, 4 << 20);
	while (fread(order, sizeof(order), 1, stdin) == 1) {
		long answer = step(order[0], order[1], order[2]);

		fwrite(&answer, sizeof(answer), 1, stdout);
	}
	return 0;
}
#endif
