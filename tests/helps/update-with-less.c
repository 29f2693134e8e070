// The value of the map is a structure of 16 bytes, what is written is a number.
// line: bpf_map_update_elem(&flows, &key, &now, BPF_ANY);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct flow {
	__u64 first;
	__u64 last;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

SEC("tc")
int remember(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 key = skb->hash;

	bpf_map_update_elem(&flows, &key, &now, BPF_ANY);
	return 0;
}

char _license[] SEC("license") = "GPL";
