// A helper is called while the lock is held.
// line: account->balance = bpf_ktime_get_ns();
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct account {
	struct bpf_spin_lock lock;
	__u64 balance;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps");

SEC("tc")
int touch(struct __sk_buff *skb)
{
	__u32 key = 1;
	struct account *account = bpf_map_lookup_elem(&accounts, &key);

	if (!account)
		return 0;
	bpf_spin_lock(&account->lock);
	account->balance = bpf_ktime_get_ns();
	bpf_spin_unlock(&account->lock);
	return 0;
}

char _license[] SEC("license") = "GPL";
