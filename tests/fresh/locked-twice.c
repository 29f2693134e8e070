// The lock is taken twice.
// line: bpf_spin_lock(&value->lock);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct guarded {
	struct bpf_spin_lock lock;
	__u32 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct guarded);
} values SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct guarded *value = bpf_map_lookup_elem(&values, &zero);

	if (!value)
		return XDP_PASS;
	bpf_spin_lock(&value->lock);
	value->count++;
	bpf_spin_lock(&value->lock);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
