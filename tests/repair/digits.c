// A character that is tested as `c - '0' < 10` and used as an index itself.
// repair: v2 repaired-proved
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct value {
	unsigned char bytes[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct value);
} values SEC(".maps");

SEC("xdp")
int digits(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0, c;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || data + 4 > end)
		return XDP_DROP;
	c = *(__u32 *)data;
	if (c >= '0' && c <= '9') {
		value->bytes[c]++;
		return XDP_PASS;
	}
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
