// The null check writes a line and goes on.
// line: ++*count;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 key = ctx->rx_queue_index;
	__u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (!count)
		bpf_printk("no entry for %u", key);
	++*count;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
