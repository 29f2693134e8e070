// Another map is updated while the lock is held.
// line: bpf_map_update_elem(&last, &zero, &now, BPF_ANY);
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} last SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 zero = 0, now;
	struct guarded *value = bpf_map_lookup_elem(&values, &zero);

	if (!value)
		return XDP_PASS;
	bpf_spin_lock(&value->lock);
	now = ++value->count;
	bpf_map_update_elem(&last, &zero, &now, BPF_ANY);
	bpf_spin_unlock(&value->lock);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
