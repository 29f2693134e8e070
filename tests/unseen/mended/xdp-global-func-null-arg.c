#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct tuple {
	__u32 saddr;
	__u32 daddr;
	__u16 sport;
	__u16 dport;
};

__attribute__((noinline)) int tuple_hash(struct tuple *t)
{
	if (!t)
		return 0;
	return (t->saddr * 31 + t->daddr) ^ t->sport ^ t->dport;
}

SEC("xdp")
int hash_it(struct xdp_md *ctx)
{
	struct tuple t = {};

	t.saddr = ctx->ingress_ifindex;
	t.daddr = ctx->rx_queue_index;
	return tuple_hash(&t) & 1 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
