// The key itself is given, not a pointer to it.
// line: __u64 *count = bpf_map_lookup_elem(&counts, (void *)(long)cpu);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *count = bpf_map_lookup_elem(&counts, (void *)(long)cpu);

	if (count)
		++*count;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
