// The value is used without a look whether the key was there.
// line: *count += 1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

SEC("tc")
int count(struct __sk_buff *skb)
{
	__u32 key = skb->ifindex & 15;
	__u64 *count = bpf_map_lookup_elem(&counters, &key);

	*count += 1;
	return 0;
}

char _license[] SEC("license") = "GPL";
