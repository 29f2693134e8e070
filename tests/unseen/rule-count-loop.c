// Loop complexity (cgroup_skb/egress).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define MAX_RULES 32

struct rule {
	__u32 net, mask;
	__u16 port;
	__u8 proto;
	__u8 allow;
};

struct ruleset {
	__u32 n;
	struct rule r[MAX_RULES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ruleset);
} rules SEC(".maps");

SEC("cgroup_skb/egress")
int firewall(struct __sk_buff *skb)
{
	struct ruleset *rs;
	struct iphdr ip;
	__u32 zero = 0, i;

	if (skb->protocol != bpf_htons(0x0800))
		return 1;
	if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) < 0)
		return 1;
	rs = bpf_map_lookup_elem(&rules, &zero);
	if (!rs)
		return 1;

	for (i = 0; i < rs->n; i++) {
		struct rule *r = &rs->r[i % MAX_RULES];

		if ((ip.daddr & r->mask) != r->net)
			continue;
		if (r->proto && r->proto != ip.protocol)
			continue;
		return r->allow ? 1 : 0;
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
