// The callback writes behind the variable that it was given.
// line: sums->total += *value;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

struct bpf_map;

struct sums {
	__u64 entries;
	__u64 total;
};

static long add(struct bpf_map *map, __u32 *key, __u64 *value, struct sums *sums)
{
	sums->total += *value;
	return 0;
}

SEC("xdp")
int sum(struct xdp_md *ctx)
{
	__u64 total = 0;

	bpf_for_each_map_elem(&counts, add, &total, 0);
	return total ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
