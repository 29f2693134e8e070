// Both ways out give the lock back.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct entry {
	struct bpf_spin_lock lock;
	__u32 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct entry);
} entries SEC(".maps");

SEC("tc")
int count(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&entries, &key);

	if (!entry)
		return 0;
	bpf_spin_lock(&entry->lock);
	entry->count++;
	__u32 count = entry->count;
	bpf_spin_unlock(&entry->lock);
	return count > 100 ? 2 : 0;
}

char _license[] SEC("license") = "GPL";
