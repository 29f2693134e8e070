// Result of a global function used as an index (XDP).
// Sorts packets by length into cells; the rule is in a global function.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define CELLS 12

struct cells {
	__u64 n[CELLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cells);
} lengths SEC(".maps");

const volatile __u32 shift = 3;

__noinline int cell_of(__u32 len)
{
	__u32 c = 0;

	len >>= shift & 7;
	for (int i = 0; i < CELLS - 1; i++) {
		if (len <= 1)
			break;
		len >>= 1;
		c++;
	}
	return c;
}

SEC("xdp")
int by_length(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, c;
	struct cells *l;

	l = bpf_map_lookup_elem(&lengths, &zero);
	if (!l)
		return XDP_PASS;
	c = cell_of(end - data);
	l->n[c]++;
	if (c == CELLS - 1)
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
