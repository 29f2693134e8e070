// 32 bytes of the payload are copied, the check covers the UDP header.
// line: __builtin_memcpy(name, payload, sizeof(name));
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/in.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>

char name[32];

SEC("xdp")
int query(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct udphdr *udp = data + sizeof(struct ethhdr) + sizeof(struct iphdr);
	void *payload = udp + 1;

	if (payload > data_end)
		return XDP_PASS;
	__builtin_memcpy(name, payload, sizeof(name));
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
