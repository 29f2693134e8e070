// The lock is held for one element at a time.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct table {
	struct bpf_spin_lock lock;
	__u32 packets[64];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table);
} tables SEC(".maps");

SEC("xdp")
int age(struct xdp_md *ctx)
{
	__u32 key = 0, sum = 0;
	struct table *table = bpf_map_lookup_elem(&tables, &key);

	if (!table)
		return XDP_PASS;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++) {
		bpf_spin_lock(&table->lock);
		sum += ((volatile __u32 *)table->packets)[i];
		bpf_spin_unlock(&table->lock);
	}
	return sum > 1000 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
