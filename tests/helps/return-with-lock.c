// The program ends with the lock when the account is empty.
// line: return 2;
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
int spend(struct __sk_buff *skb)
{
	__u32 key = 1;
	struct account *account = bpf_map_lookup_elem(&accounts, &key);

	if (!account)
		return 0;
	bpf_spin_lock(&account->lock);
	if (account->balance == 0)
		return 2;
	account->balance -= 1;
	bpf_spin_unlock(&account->lock);
	return 0;
}

char _license[] SEC("license") = "GPL";
