// It is called before the lock is taken.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct element {
	struct bpf_spin_lock lock;
	__u64 last;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, int);
	__type(value, struct element);
} elements SEC(".maps");

SEC("tc")
int touch(struct __sk_buff *skb)
{
	int key = 0;
	__u64 now = bpf_ktime_get_ns();
	struct element *element = bpf_map_lookup_elem(&elements, &key);

	if (!element)
		return 0;
	bpf_spin_lock(&element->lock);
	element->last = now;
	bpf_spin_unlock(&element->lock);
	return 0;
}

char _license[] SEC("license") = "GPL";
