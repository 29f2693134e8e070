// The index is unsigned.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct table {
	long slots[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table);
} tables SEC(".maps");

SEC("xdp")
int pick(struct xdp_md *ctx)
{
	__u32 key = 0;
	struct table *table = bpf_map_lookup_elem(&tables, &key);

	if (!table)
		return XDP_DROP;
	unsigned long index = table->slots[0];
	if (index > 15)
		return XDP_DROP;
	return table->slots[index] ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
