// The slot of a histogram is a logarithm that may be one more than the last.
// line: table->slots[slot]++;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct table {
	__u64 slots[24];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table);
} tables SEC(".maps");

SEC("xdp")
int size_class(struct xdp_md *ctx)
{
	__u32 zero = 0, slot = 0;
	__u32 length = ctx->data_end - ctx->data;
	struct table *table = bpf_map_lookup_elem(&tables, &zero);

	if (!table)
		return XDP_PASS;
	for (int i = 0; i < 40 && length > 1; i++) {
		length >>= 1;
		slot++;
	}
	table->slots[slot]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
