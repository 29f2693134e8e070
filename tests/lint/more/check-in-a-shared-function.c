// One program calls a function with a pointer that it has checked, another with one that it has not.
// lint:
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} values SEC(".maps");

static __attribute__((noinline)) __u64 read(__u64 *value)
{
	return value ? *value : 0;
}

SEC("tc")
int checked(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 *value = bpf_map_lookup_elem(&values, &key);

	return value ? read(value) : 7;
}

SEC("tc")
int unchecked(struct __sk_buff *skb)
{
	__u32 key = 0;

	return read(bpf_map_lookup_elem(&values, &key));
}

char _license[] SEC("license") = "GPL";
