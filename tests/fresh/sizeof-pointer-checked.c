// The size of the pointer is checked, not that of the header.
// line: return ip->protocol == 17 ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int drop_udp(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);

	if (data + sizeof(struct ethhdr) + sizeof(ip) > data_end)
		return XDP_PASS;
	return ip->protocol == 17 ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
