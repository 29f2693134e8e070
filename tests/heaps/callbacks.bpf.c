/* Functions that helpers run: up to 8,388,608 times a call, without a loop in the program. */
#include <kiln/heap.h>

kiln_heap(1 << 20);

struct numbers {
	__u64 sum, last;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, __u64);
} values SEC(".maps");

volatile __u64 steps;

static long add(__u32 at, struct numbers *numbers)
{
	numbers->sum += at;
	numbers->last = at;
	steps++;
	return 0;
}

static long rows(__u32 at, struct numbers *numbers)
{
	bpf_loop(1 << 23, add, numbers, 0);
	return 0;
}

static long alone(__u32 at, void *nothing)
{
	steps += at;
	return nothing != 0;
}

static long visit(void *map, __u32 *key, __u64 *value, struct numbers *numbers)
{
	for (__u32 turns = 0; turns < 1000; turns++)
		steps += *value;
	numbers->sum += *key;
	return 0;
}

/* The address reaches the function, and what it stores there comes back. */
SEC("xdp") int few(struct xdp_md *ctx)
{
	struct numbers numbers = {};

	bpf_loop(10, add, &numbers, 0);
	return numbers.sum == 45 && numbers.last == 9 ? XDP_TX : XDP_DROP;
}

SEC("xdp") int many(struct xdp_md *ctx)
{
	struct numbers numbers = {};

	bpf_loop(1 << 23, add, &numbers, 0);
	return XDP_DROP;
}

SEC("xdp") int nested(struct xdp_md *ctx)
{
	struct numbers numbers = {};

	bpf_loop(1 << 23, rows, &numbers, 0);
	return XDP_DROP;
}

SEC("xdp") int without_address(struct xdp_md *ctx)
{
	bpf_loop(1 << 23, alone, 0, 0);
	return XDP_DROP;
}

SEC("xdp") int elements(struct xdp_md *ctx)
{
	struct numbers numbers = {};

	bpf_for_each_map_elem(&values, visit, &numbers, 0);
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
