#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 128);
} inner0 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 4);
	__type(key, __u32);
	__array(values, struct inner);
} tenants SEC(".maps") = {
	.values = { &inner0 },
};

SEC("tc")
int tenant_policy(struct __sk_buff *skb)
{
	__u32 tenant = skb->mark & 3, port = skb->hash & 0xffff;
	void *policy = bpf_map_lookup_elem(&tenants, &tenant);
	__u32 *verdict;

	if (!policy)
		return TC_ACT_OK;
	verdict = bpf_map_lookup_elem(policy, &port);
	return verdict && *verdict ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
