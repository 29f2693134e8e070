// Null (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2

struct inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, __be16);
	__type(value, __u32);
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 64);
	__type(key, __u32);
	__array(values, struct inner);
} tenants SEC(".maps");

__u64 unknown_tenant, denied;

SEC("tc")
int tenant_policy(struct __sk_buff *skb)
{
	void *policy;
	__u32 tenant = skb->mark, *verdict;
	__be16 dport;

	if (bpf_skb_load_bytes(skb, 14 + 20 + 2, &dport, sizeof(dport)) < 0)
		return TC_ACT_OK;

	policy = bpf_map_lookup_elem(&tenants, &tenant);
	verdict = bpf_map_lookup_elem(policy, &dport);
	if (!policy || !verdict) {
		__sync_fetch_and_add(&unknown_tenant, 1);
		return TC_ACT_OK;
	}

	if (*verdict == 0) {
		__sync_fetch_and_add(&denied, 1);
		return TC_ACT_SHOT;
	}
	skb->priority = *verdict;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
