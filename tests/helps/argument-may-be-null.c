// A global function is verified by itself: its pointer argument may be null.
// line: *total += 1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

__attribute__((noinline)) int add(__u64 *total)
{
	*total += 1;
	return 0;
}

SEC("xdp")
int summed(struct xdp_md *ctx)
{
	__u32 key = 1;
	__u64 *total = bpf_map_lookup_elem(&counters, &key);

	if (total)
		add(total);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
