/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts under two locks at once, for crates/transform/sandbox/tests/heaps: user space takes the same locks. */
#include <kiln/heap.h>

struct shared {
	kiln_spinlock_t first;
	__u32 padding;
	kiln_spinlock_t second;
	__u32 more_padding;
	__u64 counts[2];
};

struct request {
	struct shared *shared;
	__u64 times;
};

kiln_heap(1 << 20);
__u64 runs;

SEC("xdp")
int locks(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct request *request = data;
	struct shared *shared;

	if ((void *)(request + 1) > end)
		return XDP_ABORTED;
	shared = request->shared;
	__sync_fetch_and_add(&runs, 1);
	for (__u64 times = request->times; times; times--) {
		kiln_spin_lock(&shared->first);
		kiln_spin_lock(&shared->second);
		shared->counts[0]++;
		shared->counts[1] += 2;
		kiln_spin_unlock(&shared->first);
		kiln_spin_unlock(&shared->second);
	}
	return XDP_TX; /* a cancelled run returns XDP_PASS */
}

char LICENSE[] SEC("license") = "GPL";
