// Packet pointers are used after bpf_skb_pull_data, which may move the packet.
// line: return ip->ttl < 2 ? 2 : 0;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int expiring(struct __sk_buff *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);

	if ((void *)(ip + 1) > data_end)
		return 0;
	bpf_skb_pull_data(ctx, ctx->len);
	return ip->ttl < 2 ? 2 : 0;
}

char _license[] SEC("license") = "GPL";
