// The byte to look at comes from a map, and may be anywhere.
// line: return data[*offset] == 0x45 ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

SEC("xdp")
int peek(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;
	__u32 key = 0;
	__u64 *offset = bpf_map_lookup_elem(&counters, &key);

	if (!offset || data + 64 > data_end)
		return XDP_PASS;
	return data[*offset] == 0x45 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
