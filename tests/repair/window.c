// A size of 1 to 64 that clang tests as `size - 1 < 64`.
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
int window(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0, size;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || data + 4 > end)
		return XDP_DROP;
	size = *(__u32 *)data;
	if (size >= 1 && size <= 64)
		return bpf_xdp_load_bytes(ctx, 0, value->bytes, size) ? XDP_ABORTED : XDP_PASS;
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
