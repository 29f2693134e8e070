// Bounds: map value in callback (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define NR_RULES 32

struct rule {
	__be32 net;
	__be32 mask;
	__u32 action;
};

struct ruleset {
	__u32 nr;
	struct rule r[NR_RULES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ruleset);
} rules SEC(".maps");

struct match_ctx {
	struct ruleset *rs;
	__be32 addr;
	__u32 action;
};

static long match_rule(__u32 i, void *data)
{
	struct match_ctx *m = data;

	if ((m->addr & m->rs->r[i].mask) == m->rs->r[i].net) {
		m->action = m->rs->r[i].action;
		return 1;
	}
	return 0;
}

SEC("tc")
int acl(struct __sk_buff *skb)
{
	struct match_ctx m = {};
	__u32 zero = 0;

	if (skb->protocol != bpf_htons(0x0800))
		return 0;
	if (bpf_skb_load_bytes(skb, 14 + 16, &m.addr, 4))
		return 0;
	m.rs = bpf_map_lookup_elem(&rules, &zero);
	if (!m.rs)
		return 0;
	bpf_loop(m.rs->nr, match_rule, &m, 0);
	return m.action ? 2 : 0;
}

char LICENSE[] SEC("license") = "GPL";
