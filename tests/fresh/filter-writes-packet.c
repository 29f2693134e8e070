// A cgroup's program writes into the packet.
// line: ip->tos = 4;
#include <linux/bpf.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup_skb/egress")
int mark(struct __sk_buff *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data;

	if ((void *)(ip + 1) > data_end)
		return 1;
	ip->tos = 4;
	return 1;
}

char _license[] SEC("license") = "GPL";
